// SPDX-License-Identifier: Apache-2.0

// Command rate_peer measures golang.org/x/time/rate the way Go programs use it: one limiter, and a map of limiters
// behind a mutex. It says "ready", then answers each line "CASE SAMPLE_MS" on standard input with ns per decision (wall
// time divided by the decisions of all goroutines).
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	chunk   = 4096
	keySize = 16
)

// A peer is what the cases work on.
type peer struct {
	allow *rate.Limiter // always has room
	deny  *rate.Limiter // used up for years

	mutex sync.Mutex
	keyed map[string]*rate.Limiter
	keys  uint64
}

func mix(value uint64) uint64 {
	value ^= value >> 30
	value *= 0xbf58476d1ce4e5b9
	value ^= value >> 27
	value *= 0x94d049bb133111eb
	return value ^ value>>31
}

// writeKey makes the key of 16 bytes that weir's own program makes too.
func writeKey(key []byte, number uint64) {
	binary.LittleEndian.PutUint64(key, number*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(key[8:], number)
}

func (p *peer) fill(keys uint64) {
	p.keys = keys
	p.keyed = make(map[string]*rate.Limiter, keys)
	key := make([]byte, keySize)
	for i := uint64(0); i < keys; i++ {
		writeKey(key, i)
		p.keyed[string(key)] = rate.NewLimiter(1e9, 1e9)
	}
	runtime.GC()
}

// hot decides on one limiter that everybody shares.
func hot(limiter *rate.Limiter) func(*peer, *uint64) {
	return func(_ *peer, _ *uint64) {
		for i := 0; i < chunk; i++ {
			limiter.Allow()
		}
	}
}

// random decides on random keys; looking a []byte up as a string allocates nothing.
func random(p *peer, state *uint64) {
	key := make([]byte, keySize)
	for i := 0; i < chunk; i++ {
		*state++
		writeKey(key, mix(*state)%p.keys)
		p.mutex.Lock()
		limiter := p.keyed[string(key)]
		p.mutex.Unlock()
		limiter.Allow()
	}
}

// measure runs work on several goroutines for about a sample; rates add up.
func (p *peer) measure(work func(*peer, *uint64), goroutines int, sample time.Duration) float64 {
	rates := make(chan float64)
	var start sync.WaitGroup
	start.Add(goroutines)
	for i := 0; i < goroutines; i++ {
		state := mix(uint64(time.Now().UnixNano()) + uint64(i))
		go func() {
			work(p, &state)
			start.Done()
			start.Wait()
			begin, done := time.Now(), 0
			for time.Since(begin) < sample {
				work(p, &state)
				done += chunk
			}
			rates <- float64(done) / float64(time.Since(begin).Nanoseconds())
		}()
	}
	sum := 0.0
	for i := 0; i < goroutines; i++ {
		sum += <-rates
	}
	return 1 / sum
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rate_peer KEYS")
		os.Exit(2)
	}
	keys, err := strconv.ParseUint(os.Args[1], 10, 32)
	if err != nil || keys == 0 {
		fmt.Fprintln(os.Stderr, "KEYS: must be 1 to 4294967295")
		os.Exit(2)
	}
	p := &peer{allow: rate.NewLimiter(1e9, 1e9), deny: rate.NewLimiter(1e-9, 1)}
	p.deny.Allow()
	p.fill(keys)
	cases := map[string]struct {
		work       func(*peer, *uint64)
		goroutines int
	}{
		"hot-1":    {hot(p.allow), 1},
		"hot-2":    {hot(p.allow), 2},
		"deny-1":   {hot(p.deny), 1},
		"deny-2":   {hot(p.deny), 2},
		"random-1": {random, 1},
		"random-2": {random, 2},
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var name string
		var sampleMs int
		if _, err := fmt.Sscan(lines.Text(), &name, &sampleMs); err != nil || cases[name].work == nil {
			fmt.Fprintln(os.Stderr, "expected CASE SAMPLE_MS, got", lines.Text())
			os.Exit(2)
		}
		fmt.Printf("%.6g\n", p.measure(cases[name].work, cases[name].goroutines, time.Duration(sampleMs)*time.Millisecond))
	}
}
