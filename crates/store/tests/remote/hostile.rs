//! Peers that violate the protocol: they are disconnected, and other clients are not affected.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use craton_store::remote::protocol::{
    Answer, Call, HEADER, Hello, MAGIC, MOST, MOST_HELLO, Release, Reply, Request, VERSION, Welcome, decode, encode,
};
use craton_store::remote::{Address, Client, Server, ServerOptions};
use craton_store::{Error, Home, PageId, PageSpec, SetId, SetOptions};

use crate::support::{bytes, connect, pattern, say, serve, serve_with, set, write_page};

pub fn play(role: &str, address: &Address) -> bool {
    if role != "stranger" {
        return false;
    }
    match Client::connect(address) {
        Err(Error::Connection { why, .. }) => say(format!("the client: {why}")),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a process of another user was accepted"),
    }
    // A client that does not check the user of the server.
    let mut socket = UnixStream::connect_addr(&name(address)).unwrap();
    match welcome(&mut socket) {
        Welcome::Refused(why) => say(format!("the server: {why}")),
        Welcome::Accepted { .. } => panic!("a process of another user was accepted"),
    }
    assert_dropped(socket);
    true
}

fn short() -> ServerOptions {
    let (handshake, stall) = (Duration::from_millis(100), Duration::from_millis(100));
    ServerOptions { handshake, stall, ..ServerOptions::default() }
}

fn name(address: &Address) -> SocketAddr {
    match address {
        Address::Abstract(name) => SocketAddr::from_abstract_name(name).unwrap(),
        Address::Path(path) => SocketAddr::from_pathname(path).unwrap(),
    }
}

fn raw(server: &Server) -> UnixStream {
    let socket = UnixStream::connect_addr(&name(server.address())).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn frame(value: &impl serde::Serialize) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(value, &mut frame, MOST).unwrap();
    frame
}

fn hello() -> Vec<u8> {
    frame(&Hello { version: VERSION, join: None })
}

// A connection that has completed the handshake.
fn accepted(server: &Server) -> UnixStream {
    let mut socket = raw(server);
    socket.write_all(&hello()).unwrap();
    assert!(matches!(welcome(&mut socket), Welcome::Accepted { .. }));
    socket
}

fn welcome(socket: &mut UnixStream) -> Welcome {
    let mut header = [0; HEADER];
    socket.read_exact(&mut header).unwrap();
    let mut value = vec![0; u32::from_le_bytes(header[4..].try_into().unwrap()) as usize];
    socket.read_exact(&mut value).unwrap();
    decode(&value).unwrap()
}

// Check that the server ends the connection.
fn assert_dropped(mut socket: UnixStream) {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

// Check that the server still serves a client that follows the protocol.
fn assert_serves(server: &Server) {
    let client = connect(server);
    let set = set(&client);
    let page = write_page(&client, set, &pattern(1, 1000)).unwrap().page;
    assert_eq!(bytes(&client.pin(page).unwrap()), pattern(1, 1000));
}

#[test]
fn rubbish_and_oversize_frames_are_dropped() {
    let (home, server) = serve();
    for seed in 0..200 {
        let mut socket = raw(&server);
        let _ = socket.write_all(&pattern(seed, 1 + seed as usize * 50));
        let _ = socket.shutdown(Shutdown::Write);
        assert_dropped(socket);
    }
    for length in [MOST_HELLO as u32 + 1, MOST as u32, u32::MAX] {
        let mut socket = raw(&server);
        socket.write_all(&[&MAGIC[..], &length.to_le_bytes()].concat()).unwrap();
        assert_dropped(socket);
    }
    for length in [MOST as u32 + 1, u32::MAX] {
        let mut socket = accepted(&server);
        socket.write_all(&[&MAGIC[..], &length.to_le_bytes()].concat()).unwrap();
        assert_dropped(socket);
    }
    assert_serves(&server);
    home.wait_clients(0);
}

#[test]
fn other_versions_are_refused_with_the_reason() {
    let (_home, server) = serve();
    let mut socket = raw(&server);
    socket.write_all(&frame(&Hello { version: VERSION + 1, join: None })).unwrap();
    assert!(matches!(welcome(&mut socket), Welcome::Refused(why) if why.contains(&format!("version {}", VERSION + 1))));
    assert_dropped(socket);
    let mut socket = raw(&server);
    let join = Some((craton_store::remote::ClientId(1), 7));
    socket.write_all(&frame(&Hello { version: VERSION, join })).unwrap();
    assert!(matches!(welcome(&mut socket), Welcome::Refused(why) if why.contains("no such client")));
    assert_serves(&server);
}

#[test]
fn frames_cut_at_every_length_are_dropped() {
    let (home, server) = serve();
    let request = Request::CreateSet(SetOptions { name: Some("cut".into()), ..SetOptions::default() });
    let call = frame(&Call { before: 0, releases: vec![Release::Pin(1)], request });
    let whole = [hello(), call].concat();
    for length in 0..whole.len() {
        let mut socket = raw(&server);
        socket.write_all(&whole[..length]).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        assert_dropped(socket);
    }
    home.wait_clients(0);
    assert_eq!(home.find_set("cut").unwrap(), None);
    assert_serves(&server);
}

#[test]
fn the_silent_and_the_slow_are_dropped_and_the_idle_are_not() {
    let (home, server) = serve_with(short());
    let idle = connect(&server);
    assert_dropped(raw(&server));
    let mut slow = raw(&server);
    slow.write_all(&hello()[..3]).unwrap();
    assert_dropped(slow);
    let mut stalled = accepted(&server);
    stalled.write_all(&[&MAGIC[..], &100u32.to_le_bytes(), &[0; 50]].concat()).unwrap();
    assert_dropped(stalled);
    // A client that does not acknowledge a granted segment.
    let mut socket = accepted(&server);
    let set = home.create_set(SetOptions { name: Some("set".into()), ..SetOptions::default() }).unwrap();
    let request = Request::Allocate { set, lengths: vec![1000] };
    socket.write_all(&frame(&Call { before: 0, releases: Vec::new(), request })).unwrap();
    assert_dropped(socket);
    home.wait_clients(1);
    assert_eq!(home.used.load(std::sync::atomic::Ordering::SeqCst), 0);
    // By now, several timeouts of a message have passed.
    idle.counters().unwrap();
}

#[test]
fn ten_thousand_malformed_messages() {
    let (home, server) = serve();
    let calls: Vec<Vec<u8>> = [
        Request::Nothing,
        Request::FindSet("x".into()),
        Request::Allocate { set: SetId(1), lengths: vec![1, 2, 3] },
        Request::Granted(Ok(())),
        Request::Pin((0..3).map(|number| PageId { set: SetId(1), number }).collect()),
        Request::Reserve { least: 1, bytes: 2 },
        Request::Seal(Box::new(craton_store::remote::protocol::Sealing::new(SetId(1), PageSpec::default(), vec![1]))),
    ]
    .into_iter()
    .map(|request| frame(&Call { before: 0, releases: vec![Release::Set(SetId(1)), Release::Extent(3)], request }))
    .collect();
    let good = connect(&server);
    for seed in 0..10_000u64 {
        let noise = pattern(seed, 24);
        let mut message = calls[seed as usize % calls.len()].clone();
        // Change some bytes of the value, or sometimes of the length; then close the connection.
        for change in 0..=usize::from(noise[0] % 4) {
            let skip = if noise[1] < 16 { 0 } else { HEADER };
            let at = skip + usize::from(noise[2 + change]) % (message.len() - skip);
            message[at] = noise[8 + change];
        }
        let mut socket = raw(&server);
        let _ = socket.write_all(&[hello(), message].concat());
        let _ = socket.shutdown(Shutdown::Write);
        assert_dropped(socket);
        if seed % 1000 == 0 {
            good.counters().unwrap();
        }
    }
    drop(good);
    home.wait_clients(0);
    assert_serves(&server);
}

fn decodes_again<T: serde::Serialize + serde::de::DeserializeOwned>(bytes: &[u8]) -> bool {
    let Ok(value) = decode::<T>(bytes) else { return false };
    let written = frame(&value);
    assert_eq!(frame(&decode::<T>(&written[HEADER..]).unwrap()), written);
    true
}

#[test]
fn any_bytes_decode_or_fail() {
    let mut decoded = 0;
    for seed in 0..100_000u64 {
        let mut bytes = pattern(seed, (seed % 64) as usize);
        // Small numbers reach more cases, because they are valid lengths and enum variants.
        bytes.iter_mut().for_each(|byte| *byte %= 1 << (seed % 8 + 1));
        decoded += usize::from(decodes_again::<Hello>(&bytes)) + usize::from(decodes_again::<Welcome>(&bytes));
        decoded += usize::from(decodes_again::<Call>(&bytes)) + usize::from(decodes_again::<Answer>(&bytes));
    }
    assert!(decoded > 100, "only {decoded} values were decoded");
    // A list that claims more values than there are bytes, or than are allowed.
    let claims = [&[0, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0; 100]].concat();
    assert!(decode::<Call>(&claims).is_err());
}

#[test]
fn a_stranger_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (_home, server) = serve();
    // A copy of the program that every user may run.
    let folder = std::env::temp_dir().join(format!("craton-stranger-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    use std::os::unix::fs::PermissionsExt;
    for path in [&folder, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let stranger = Command::new(&program)
        .args(["--exact", "role", "--nocapture"])
        .env("CRATON_TEST_ROLE", "stranger")
        .env("CRATON_TEST_ADDRESS", server.address().to_string())
        .current_dir("/")
        .stdout(Stdio::piped())
        .uid(65534)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let stranger = stranger.unwrap();
    let said = String::from_utf8_lossy(&stranger.stdout).into_owned();
    assert!(stranger.status.success(), "{said}");
    assert!(said.contains("the client: it belongs to user 0"), "{said}");
    assert!(said.contains("the server: it serves processes of user 0 only"), "{said}");
    assert!(server.clients().is_empty());
    assert_serves(&server);
}

#[test]
fn a_server_that_talks_rubbish_is_a_clean_error() {
    let address = Address::unique();
    let listener = UnixListener::bind_addr(&name(&address)).unwrap();
    let connect = |answers: &[&[u8]]| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut socket, _) = listener.accept().unwrap();
                for answer in answers {
                    let _ = socket.read(&mut [0; 4096]);
                    let _ = socket.write_all(answer);
                }
            });
            Client::connect(&address).and_then(|client| client.find_set("x"))
        })
    };
    let id = craton_store::remote::ClientId(1);
    let welcome = frame(&Welcome::Accepted { client: id, key: 1 });
    let refused = frame(&Welcome::Refused("closed today".into()));
    let answer = |segments, reply| frame(&craton_store::remote::protocol::Answer { segments, gone: vec![7], reply });
    let announced = craton_store::remote::protocol::Announced { segment: 1, length: 4096 };
    let unasked = answer(Vec::new(), Reply::Set(SetId(1)));
    let without = answer(vec![announced], Reply::Found(None));
    let cases: [(&[&[u8]], &str); 7] = [
        (&[], "closed the connection"),
        (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], "protocol of a store"),
        (&[&refused], "closed today"),
        (&[&welcome], "closed the connection"),
        (&[&welcome, &MAGIC], "middle of a message"),
        (&[&welcome, &unasked], "does not match the request"),
        (&[&welcome, &without], "1 descriptors were sent and 0 arrived"),
    ];
    for (answers, expected) in cases {
        match connect(answers) {
            Err(Error::Connection { why, .. }) => assert!(why.contains(expected), "{why:?} instead of {expected:?}"),
            other => panic!("{other:?} instead of {expected:?}"),
        }
    }
}
