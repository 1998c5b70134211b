//! Ranks in threads, joined by TCP on this machine.

use super::*;

/// The result of each of `size` ranks in threads.
fn on_each<T: Send>(size: usize, work: impl Fn(&Ranks) -> T + Sync) -> Vec<T> {
    let key = Key::random().expect("random");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    let (work, key) = (&work, &key);
    std::thread::scope(|scope| {
        let host = scope.spawn(move || rendezvous(&listener, size, key));
        let one = |rank| {
            let membership = Membership { rank, size, rendezvous: place };
            scope.spawn(move || work(&join(&membership, key).expect("joins")))
        };
        let all: Vec<_> = (0..size).map(one).collect();
        let found = all.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        host.join().expect("no panic").expect("all came");
        found
    })
}

#[test]
fn ranks_by_tcp_gather_and_sum_as_threads_do() {
    for size in [2, 3, 5] {
        let found = on_each(size, |ranks| {
            let texts = ranks.gather(format!("rank {}", ranks.rank())).expect("gathers");
            // More than a socket holds, so that all send before any has read.
            let count = 3_000_001;
            let value = |i: usize| ((i * 7 + ranks.rank() * 31) % 101) as f32 * 0.37 - 11.0;
            let mut values: Vec<f32> = (0..count).map(value).collect();
            ranks.sum(&mut values).expect("sums");
            let first = ranks.first(|| Ok(ranks.rank() + 7)).expect("said");
            (texts, values, first)
        });
        let exact = |i: usize| {
            let value = |rank| f64::from(((i * 7 + rank * 31) % 101) as f32 * 0.37 - 11.0);
            (0..size).map(value).sum::<f64>() as f32
        };
        for (texts, values, first) in &found {
            assert_eq!(texts.len(), size);
            assert_eq!(texts[size - 1], format!("rank {}", size - 1));
            assert!(values.iter().enumerate().all(|(i, sum)| *sum == exact(i)));
            assert_eq!(*first, 7);
        }
    }
}

#[test]
fn wrong_key_is_rejected_and_the_others_continue() {
    let (key, wrong) = (Key::random().expect("random"), Key::random().expect("random"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    std::thread::scope(|scope| {
        let host = scope.spawn(|| rendezvous(&listener, 1, &key));
        let membership = Membership { rank: 0, size: 1, rendezvous: place };
        let begun = Instant::now();
        assert!(join(&membership, &wrong).is_err());
        assert!(begun.elapsed() < PATIENCE / 10, "it tries again, though nothing will change");
        // Nor does somebody who says nothing and goes.
        drop(TcpStream::connect(place));
        join(&membership, &key).expect("who knows it joins");
        host.join().expect("no panic").expect("one came");
    });
}

#[test]
fn disconnected_rank_is_named() {
    let errors = on_each(3, |ranks| {
        if ranks.rank() == 2 {
            return String::new();
        }
        format!("{:#}", ranks.gather(1).expect_err("one is gone"))
    });
    assert!(errors[..2].iter().any(|error| error.contains("rank 2 is gone")), "{errors:?}");
}

#[test]
fn silent_connections_do_not_delay_ranks() {
    let key = Key::random().expect("random");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    // More than are greeted at a time.
    let mut strangers: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(place).expect("connects")).collect();
    for stranger in strangers.iter_mut().step_by(3) {
        stranger.write_all(&[7]).expect("a byte");
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| rendezvous(&listener, 1, &key));
        let membership = Membership { rank: 0, size: 1, rendezvous: place };
        join(&membership, &key).expect("who knows the key joins");
        host.join().expect("no panic").expect("one came");
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
