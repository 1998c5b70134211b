//! What a stranger gets from a listener, and what a rank makes of a listener that fails it.

use super::*;

fn listening() -> (TcpListener, SocketAddr, Key) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("an address");
    (listener, place, Key::random().expect("random"))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn unauthenticated_peer_learns_nothing_of_the_key() {
    let (listener, place, key) = listening();
    let mut stranger = TcpStream::connect(place).expect("connects");
    std::thread::scope(|scope| {
        let host = scope.spawn(|| Door::open(&listener, &key).expect("opens").next(soon()));
        let mut challenge = [0; SIZE];
        stranger.read_exact(&mut challenge).expect("a challenge");
        stranger.write_all(&[1; SIZE]).expect("sent");
        stranger.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
        let more = stranger.read(&mut [0]).expect_err("nothing before a proof");
        assert!(matches!(more.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{more}");
        stranger.write_all(&[1; SIZE]).expect("sent");
        let mut rest = Vec::new();
        stranger.read_to_end(&mut rest).expect("the end");
        assert_eq!(rest, REFUSAL);
        connect(place, &key, soon()).expect("who knows the key is let in");
        host.join().expect("no panic").expect("one came");
    });
}

#[test]
fn both_ends_prove_the_key_and_neither_the_same() {
    let key = Key::random().expect("random");
    let (a, b) = ([1; SIZE], [2; SIZE]);
    let proof = key.proof(true, &a, &b);
    assert_ne!(proof, key.proof(false, &a, &b), "a listener cannot send back what it got");
    assert_ne!(proof, key.proof(true, &b, &a));
    assert_ne!(proof, Key::random().expect("random").proof(true, &a, &b));
    assert!(are_equal(&proof, &key.proof(true, &a, &b)));
    assert!(Key::new(String::new()).is_err());
    // Who only stands in for the launcher proves nothing.
    let (listener, place, key) = listening();
    let impostor = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one comes");
        stream.write_all(&[3; 2 * SIZE]).expect("sent");
        stream
    });
    let error = connect(place, &key, soon()).expect_err("no proof");
    assert!(error.is::<OtherKey>(), "{error:#}");
    drop(impostor.join());
}

#[test]
fn ranks_retry_failed_greetings() {
    let (listener, place, key) = listening();
    std::thread::scope(|scope| {
        let host = scope.spawn(|| {
            for _ in 0..3 {
                drop(listener.accept().expect("one comes"));
            }
            Door::open(&listener, &key).expect("opens").next(soon())
        });
        connect(place, &key, soon()).expect("the fourth time");
        host.join().expect("no panic").expect("it came");
    });
}

#[test]
fn slow_greetings_do_not_extend_the_deadline() {
    let (listener, place, key) = listening();
    let mut slow = TcpStream::connect(place).expect("connects");
    let mut greeting = Greeting::begin(listener.accept().expect("it comes").0).expect("begins");
    slow.write_all(&[7]).expect("a byte");
    while greeting.length == 0 {
        assert!(!greeting.has_proved(&key).expect("there is time"));
    }
    greeting.deadline = Instant::now();
    slow.write_all(&[7]).expect("a byte");
    assert!(greeting.has_proved(&key).is_err());
}
