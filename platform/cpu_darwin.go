package platform

const modelSysctl = "machdep.cpu.brand_string"
