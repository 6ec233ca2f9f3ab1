package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		url = "redis://127.0.0.1:6379"
	}
	if err := run(context.Background(), url); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()

	// Fields 0, 1, 2 of a post: reads, likes, comments.
	likes, err := client.Do(ctx, "CINT.INCRBY", "demo:post:1", 1, 1, "LEN", 3).Int64()
	if err != nil {
		return err
	}
	fmt.Println("likes", likes)
	if err := client.Do(ctx, "CINT.BATCHINCR", "demo:post:1", 0, 11, 2, 5).Err(); err != nil {
		return err
	}

	// A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
	page, err := client.Do(ctx, "CINT.MREAD", 3, "demo:post:1", "demo:post:2").Text()
	if err != nil {
		return err
	}
	fmt.Print("page")
	for ; len(page) >= 5; page = page[5:] {
		var count uint64
		for _, b := range []byte(page[:5]) {
			count = count<<8 | uint64(b)
		}
		fmt.Print(" ", count)
	}
	fmt.Println()

	// Who liked it: an exact set of 64-bit ids.
	for i := 0; i < 2; i++ {
		added, err := client.Do(ctx, "RBM.ADD", "demo:likes:1", uint64(math.MaxUint64)).Int64()
		if err != nil {
			return err
		}
		fmt.Println("new", added)
	}
	return client.Unlink(ctx, "demo:post:1", "demo:likes:1").Err()
}
