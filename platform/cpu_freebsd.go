package platform

const modelSysctl = "hw.model"
