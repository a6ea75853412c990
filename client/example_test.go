package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"felix/client"
)

// connect is how the examples reach a broker that runs in development mode.
func connect(ctx context.Context) *client.Client {
	c, err := client.Connect(ctx, client.Config{
		Addr:   "127.0.0.1:5000",
		CAFile: "ca.pem",
		Tenant: "t1",
		Token:  os.Getenv("FELIX_AUTH_TOKEN"),
	})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func ExampleConnect() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{
		Addr:   "broker.example:5000",
		CAFile: "/etc/felix/ca.pem",
		Tenant: "t1",
		TokenSource: func(context.Context) (string, error) {
			token, err := os.ReadFile("/run/felix/token") // written anew before it expires
			return string(token), err
		},
	})
	var refused *client.AuthError
	if errors.As(err, &refused) {
		log.Fatal("the token is not accepted: ", refused.Message)
	} else if err != nil {
		log.Fatal(err)
	}
	defer c.Close(context.Background())
}

func ExampleClient_Publish() {
	ctx := context.Background()
	c := connect(ctx)
	defer c.Close(ctx)

	// Returns when the broker has accepted the message.
	if err := c.Publish(ctx, "orders", []byte("order 1")); err != nil {
		log.Fatal(err)
	}
	// Returns when the message was written; nobody will hear of a loss.
	if err := c.Publish(ctx, "metrics", []byte("load 0.3"), client.WithAck(client.AckNone)); err != nil {
		log.Fatal(err)
	}
	// Is sent again if the answer is lost, so that it may arrive twice.
	if err := c.Publish(ctx, "orders", []byte("order 2"), client.WithRetry(client.AtLeastOnce)); err != nil {
		log.Fatal(err)
	}
}

func ExamplePublisher() {
	ctx := context.Background()
	c := connect(ctx)
	defer c.Close(ctx)

	p := c.NewPublisher("numbers", client.PublisherOptions{Retry: client.AtLeastOnce})
	for i := range 200_000 {
		if err := p.Publish(ctx, fmt.Append(nil, i)); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil { // everything is acknowledged, or the error says what is not
		log.Fatal(err)
	}
}

func ExampleClient_Subscribe() {
	ctx := context.Background()
	c := connect(ctx)
	defer c.Close(ctx)

	sub, err := c.Subscribe(ctx, "orders", client.FromEarliest())
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	for ev, err := range sub.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Skipped > 0 || ev.Resumed {
			log.Print("some orders are missing before this one")
		}
		fmt.Println(string(ev.Payload))
	}
}

func ExampleSubscription_Each() {
	ctx := context.Background()
	c := connect(ctx)
	defer c.Close(ctx)

	var next uint64 // read from where the program keeps its state
	sub, err := c.Subscribe(ctx, "orders", client.FromOffset(next), client.FailOnGap())
	if err != nil {
		log.Fatal(err)
	}
	err = sub.Each(ctx, func(ev client.Event) error {
		if ev.HasOffset {
			next = ev.Offset + 1 // to be kept together with what the event has changed
		}
		return nil
	})
	var gap *client.GapError
	if errors.As(err, &gap) && gap.Known {
		log.Fatalf("records %d to %d are gone", gap.From, gap.To-1)
	}
}

func ExampleCache() {
	ctx := context.Background()
	c := connect(ctx)
	defer c.Close(ctx)

	sessions := c.Cache("sessions")
	if err := sessions.Put(ctx, "user-7", []byte("logged in"), 30*time.Minute); err != nil {
		log.Fatal(err)
	}
	value, found, err := sessions.Get(ctx, "user-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found, string(value))
}
