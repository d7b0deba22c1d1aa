// SPDX-License-Identifier: Apache-2.0

//! Measures the governor crate: one limiter, and one keyed by 16 bytes. Says "ready", then answers each line
//! "CASE SAMPLE_MS" on standard input with ns per decision (wall time divided by the decisions of all threads).

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::io::{BufRead, Write};
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CHUNK: u64 = 4096;

struct Peer {
    allow: DefaultDirectRateLimiter,
    deny: DefaultDirectRateLimiter,
    keyed: DefaultKeyedRateLimiter<[u8; 16]>,
    keys: u64,
}

fn mix(mut value: u64) -> u64 {
    value ^= value >> 30;
    value = value.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value ^= value >> 27;
    value = value.wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The key of 16 bytes that weir's own program makes too.
fn key_of(number: u64) -> [u8; 16] {
    ((u128::from(number) << 64) | u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
}

impl Peer {
    fn new(keys: u64) -> Peer {
        let billion = NonZeroU32::new(1_000_000_000).expect("not 0");
        let most = Quota::per_second(billion);
        let year = Duration::from_secs(365 * 86400);
        let least = Quota::with_period(year).expect("not 0");
        let peer = Peer {
            allow: RateLimiter::direct(most),
            deny: RateLimiter::direct(least),
            keyed: RateLimiter::keyed(most),
            keys,
        };
        assert!(peer.deny.check().is_ok());
        for i in 0..keys {
            assert!(peer.keyed.check_key(&key_of(i)).is_ok());
        }
        peer
    }

    fn chunk(&self, case: &str, state: &mut u64) {
        let mut admitted = 0;
        match case {
            "hot" => {
                for _ in 0..CHUNK {
                    admitted += u64::from(self.allow.check().is_ok());
                }
            }
            "deny" => {
                for _ in 0..CHUNK {
                    admitted += u64::from(self.deny.check().is_ok());
                }
            }
            _ => {
                for _ in 0..CHUNK {
                    *state += 1;
                    let key = key_of(mix(*state) % self.keys);
                    admitted += u64::from(self.keyed.check_key(&key).is_ok());
                }
            }
        }
        assert!(admitted == if case == "deny" { 0 } else { CHUNK });
    }

    /// Decisions per ns of one thread.
    fn work(&self, case: &str, sample: Duration, seed: u64, start: &Barrier) -> f64 {
        let mut state = mix(seed);
        self.chunk(case, &mut state);
        start.wait();
        let begin = Instant::now();
        let mut done = 0;
        while begin.elapsed() < sample {
            self.chunk(case, &mut state);
            done += CHUNK;
        }
        done as f64 / begin.elapsed().as_nanos() as f64
    }

    fn measure(&self, case: &str, threads: usize, sample: Duration) -> f64 {
        let start = Barrier::new(threads);
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |age| age.as_nanos() as u64);
        let sum: f64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|i| {
                    scope.spawn({
                        let start = &start;
                        move || self.work(case, sample, seed + i as u64, start)
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("a worker ended well"))
                .sum()
        });
        1.0 / sum
    }
}

fn main() {
    let keys = match std::env::args().nth(1).map(|word| word.parse::<u32>()) {
        Some(Ok(keys)) if keys > 0 => u64::from(keys),
        _ => {
            eprintln!("usage: governor_peer KEYS (1 to 4294967295)");
            std::process::exit(2);
        }
    };
    let peer = Peer::new(keys);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input can be read");
        let mut words = line.split_whitespace();
        let (name, threads) = match words.next().and_then(|word| word.rsplit_once('-')) {
            Some((name @ ("hot" | "deny" | "random"), threads)) => (name, threads.parse().unwrap_or(0)),
            _ => ("", 0),
        };
        let sample_ms = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        if threads == 0 || sample_ms == 0 {
            eprintln!("expected CASE SAMPLE_MS, got {line}");
            std::process::exit(2);
        }
        println!("{:.6}", peer.measure(name, threads, Duration::from_millis(sample_ms)));
        std::io::stdout().flush().expect("standard output can be written");
    }
}
