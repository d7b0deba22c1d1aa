// SPDX-License-Identifier: Apache-2.0

// Locks of etcd, by its own client: each of N clients acquires and releases a lock of its own, as fast as it can.
//
//	lock_etcd ENDPOINT CLIENTS MILLISECONDS session|lease
//
// session: one lease per client, kept for all its locks (what etcd's concurrency package does); an acquire is one
// transaction. lease: a lease for each lock, as a lock with a ttl of its own needs; an acquire is a grant and a
// transaction, a release revokes. Prints one line of figures.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const ttlSeconds = 15

// put creates the key if it is not there: the whole of an uncontended acquire.
func put(ctx context.Context, client *clientv3.Client, key string, lease clientv3.LeaseID) error {
	answer, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "owner", clientv3.WithLease(lease))).Commit()
	if err == nil && !answer.Succeeded {
		err = fmt.Errorf("%s is held", key)
	}
	return err
}

func work(ctx context.Context, endpoint string, number int, perLock bool, until time.Time) ([]time.Duration, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	key := fmt.Sprintf("bench/%d", number)
	var lease clientv3.LeaseID
	if !perLock {
		granted, err := client.Grant(ctx, 600)
		if err != nil {
			return nil, err
		}
		lease = granted.ID
	}
	var took []time.Duration
	for time.Now().Before(until) {
		begin := time.Now()
		if perLock {
			granted, err := client.Grant(ctx, ttlSeconds)
			if err != nil {
				return nil, err
			}
			lease = granted.ID
		}
		if err := put(ctx, client, key, lease); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		if perLock {
			_, err = client.Revoke(ctx, lease)
		} else {
			_, err = client.Delete(ctx, key)
		}
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: lock_etcd ENDPOINT CLIENTS MILLISECONDS session|lease")
		os.Exit(2)
	}
	clients, _ := strconv.Atoi(os.Args[2])
	milliseconds, _ := strconv.Atoi(os.Args[3])
	ctx := context.Background()
	begin := time.Now()
	until := begin.Add(time.Duration(milliseconds) * time.Millisecond)
	var all []time.Duration
	var mutex sync.Mutex
	var group sync.WaitGroup
	for i := 0; i < clients; i++ {
		group.Add(1)
		go func(number int) {
			defer group.Done()
			took, err := work(ctx, os.Args[1], number, os.Args[4] == "lease", until)
			if err != nil {
				fmt.Fprintln(os.Stderr, "lock_etcd:", err)
				os.Exit(1)
			}
			mutex.Lock()
			defer mutex.Unlock()
			all = append(all, took...)
		}(i)
	}
	group.Wait()
	elapsed := time.Since(begin).Seconds()
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	at := func(share float64) float64 { return float64(all[int(share*float64(len(all)-1))].Nanoseconds()) / 1000 }
	fmt.Printf("rate %.1f p50_us %.1f p99_us %.1f\n", float64(len(all))/elapsed, at(0.5), at(0.99))
}
