//! Untrusted bytes, made up from good ones: no reader panics, hangs, or lets a name out of its folder.
//!
//! `TEALIGHT_FUZZ_SECONDS` says how long each kind is tried, a moment unless given. What is found by coverage is for
//! `cargo fuzz` (see `fuzz/`); this needs no tools and runs everywhere.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tealight::fuzzing::TARGETS;
use tealight::system::budget::Counting;

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting(std::alloc::System);

/// Replacements for parts of an input: numbers at the edges, and words that formats know.
const WORDS: [&[u8]; 22] = [
    b"-1",
    b"0",
    b"4294967296",
    b"9223372036854775808",
    b"18446744073709551616",
    b"1e308",
    b"-0.0",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b"\"../../x\"",
    b"\"/etc/passwd\"",
    b"\\u0000",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"[[[[[[[[[[",
    b"{%for i in range(9999)%}",
    b"{{ x ~ x }}",
    b"|replace('a','aaaaaaaa')",
    b"\n",
];

/// `seed` with some of its bytes changed.
fn mutated(seed: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut data = seed.to_vec();
    let mut below = |n: usize| (rng.next_u64() % n.max(1) as u64) as usize;
    for _ in 0..=below(6) {
        let at = below(data.len() + 1);
        let end = (at + below(16)).min(data.len());
        match below(7) {
            0 if at < data.len() => data[at] ^= 1 << below(8),
            1 if at < data.len() => data[at] = below(256) as u8,
            2 => drop(data.splice(at..end, WORDS[below(WORDS.len())].iter().copied())),
            3 => drop(data.drain(at..end)),
            4 => {
                let part = data[at..end].to_vec();
                let times = below(50);
                drop(data.splice(at..at, part.repeat(times)));
            }
            5 => data.truncate(at),
            // A number becomes another.
            _ => {
                let digits = data
                    .iter()
                    .enumerate()
                    .skip(at)
                    .find(|(_, b)| b.is_ascii_digit())
                    .map(|(i, _)| i);
                if let Some(start) = digits {
                    let length = data[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                    drop(data.splice(start..start + length, WORDS[below(7)].iter().copied()));
                }
            }
        }
    }
    data
}

#[test]
fn readers_of_untrusted_bytes_never_panic_or_hang() {
    tealight_core::guard::quiet_panics();
    let seconds = std::env::var("TEALIGHT_FUZZ_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.5);
    std::thread::scope(|scope| {
        for (name, target, seed) in TARGETS {
            scope.spawn(move || {
                target(seed);
                let (started, mut tried) = (Instant::now(), 0u64);
                while started.elapsed() < Duration::from_secs_f64(seconds) || tried < 20 {
                    let mut rng = ChaCha8Rng::seed_from_u64(tried);
                    let data = mutated(seed, &mut rng);
                    let before = Instant::now();
                    if std::panic::catch_unwind(|| target(&data)).is_err() {
                        panic!("{name}: input {tried} panics: {}", String::from_utf8_lossy(&data));
                    }
                    let took = before.elapsed().as_secs();
                    assert!(
                        took < 60,
                        "{name}: input {tried} takes {took} s: {}",
                        String::from_utf8_lossy(&data)
                    );
                    tried += 1;
                }
                eprintln!("{name}: {tried} inputs");
            });
        }
    });
}
