//! Ranks in threads, joined by TCP on this machine.

use super::*;

/// The result of each of `size` ranks in threads.
fn on_each<T: Send>(size: usize, work: impl Fn(&Ranks) -> T + Sync) -> Vec<T> {
    let key = Key::random().expect("random");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    let (work, key) = (&work, &key);
    std::thread::scope(|scope| {
        let host = scope.spawn(move || rendezvous(&listener, size, key));
        let one = |rank| {
            let rendezvous = place.clone();
            let membership = Membership { rank, size, local: (rank, size), rendezvous };
            scope.spawn(move || work(&join(&membership, key).expect("joins").0))
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
            let said = ranks.first(|| Ok(ranks.rank() + 7)).expect("said");
            let gathered = ranks.gather_to_first(vec![7u8; ranks.rank()]).expect("gathers");
            let lengths: Vec<usize> = gathered.iter().map(Vec::len).collect();
            let first = if ranks.is_first() { (0..size).collect() } else { vec![] };
            assert_eq!(lengths, first, "the first alone has what all gather");
            (texts, values, said)
        });
        let exact = |i: usize| {
            let of = |rank| f64::from(((i * 7 + rank * 31) % 101) as f32 * 0.37 - 11.0);
            (0..size).map(of).sum::<f64>() as f32
        };
        for (texts, values, said) in &found {
            assert_eq!(texts.len(), size);
            assert_eq!(texts[size - 1], format!("rank {}", size - 1));
            assert!(values.iter().enumerate().all(|(i, sum)| *sum == exact(i)));
            assert_eq!(*said, 7);
        }
    }
}

#[test]
fn who_does_not_know_the_key_is_sent_away_and_the_others_go_on() {
    let (key, wrong) = (Key::random().expect("random"), Key::random().expect("random"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| rendezvous(&listener, 1, &key));
        let membership = Membership { rank: 0, size: 1, local: (0, 1), rendezvous: place.clone() };
        let begun = Instant::now();
        assert!(join(&membership, &wrong).is_err());
        assert!(begun.elapsed() < PATIENCE / 10, "it tries again, though nothing will change");
        // Nor does somebody who says nothing and goes.
        drop(TcpStream::connect(&place));
        join(&membership, &key).expect("who knows it joins");
        host.join().expect("no panic").expect("one came");
    });
}

#[test]
fn a_rank_that_goes_is_named() {
    let said = on_each(3, |ranks| {
        if ranks.rank() == 2 {
            return String::new();
        }
        format!("{:#}", ranks.gather(1).expect_err("one is gone"))
    });
    assert!(said[..2].iter().any(|said| said.contains("rank 2 is gone")), "{said:?}");
}

#[test]
fn connections_that_say_nothing_or_little_hold_up_no_rank() {
    let key = Key::random().expect("random");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    // More than are greeted at a time.
    let mut strangers: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(&place).expect("connects")).collect();
    for stranger in strangers.iter_mut().step_by(3) {
        stranger.write_all(&[7]).expect("a byte");
    }
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| rendezvous(&listener, 1, &key));
        let membership = Membership { rank: 0, size: 1, local: (0, 1), rendezvous: place.clone() };
        join(&membership, &key).expect("who knows the key joins");
        host.join().expect("no panic").expect("one came");
    });
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn signals_go_to_the_first_launcher_and_from_there_to_ranks() {
    let key = Key::random().expect("random");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| rendezvous(&listener, 2, &key));
        let [first, second] = [0, 1].map(|rank| {
            let (rendezvous, key) = (place.clone(), &key);
            let membership = Membership { rank, size: 2, local: (0, 1), rendezvous };
            scope.spawn(move || join(&membership, key).expect("joins").1)
        });
        let mut controls = host.join().expect("no panic").expect("both came");
        let [first, second] = [first, second].map(|rank| rank.join().expect("no panic"));
        assert_eq!(controls.requested(), None);
        second.request(143);
        let begun = Instant::now();
        let requested = std::iter::repeat_with(|| controls.requested())
            .take_while(|_| begun.elapsed() < Duration::from_secs(10))
            .find_map(|requested| requested);
        assert_eq!(requested, Some(143));
        drop(first);
        controls.signal(1, 130);
        assert_eq!(controls.requested(), None, "one that has ended asks for nothing");
        assert_eq!(second.next(), Some(130));
        drop(controls);
        assert_eq!(second.next(), None);
        assert!(!second.is_finished());
    });
}

#[test]
fn a_rank_that_knows_itself_by_a_local_address_is_found_where_the_launcher_is() {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    // Debian's own name for itself, on the first of several nodes.
    let (listener, address) = listen(ip("127.0.1.1"), false).expect("listens");
    assert!(listener.local_addr().expect("an address").ip().is_unspecified());
    let launcher = ip("10.1.2.3");
    let port = address.port();
    assert_eq!(reachable(address, launcher), SocketAddr::new(launcher, port));
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("this node's ranks connect too");
    #[cfg(target_os = "linux")]
    TcpStream::connect(("127.0.0.2", port)).expect("it listens on all addresses");
    // Alone, a node's ranks are nobody else's concern.
    let (listener, address) = listen(ip("127.0.0.1"), true).expect("listens");
    assert_eq!(listener.local_addr().expect("an address"), address);
    assert_eq!(reachable(address, launcher), address);
}
