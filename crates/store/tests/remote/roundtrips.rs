//! Every request of the protocol, and the limits of what a client may do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use craton_store::remote::{Address, Client, Server, ServerOptions};
use craton_store::{Attributes, Durability, Error, Home, Operation, PageId, PageSpec, Reference, SetId, SetOptions};

use crate::fake::FakeHome;
use crate::support::{LIMIT, bytes, connect, named, pattern, serve, serve_with, set, write_page};

#[test]
fn every_request_is_answered_as_the_home_answers() {
    let (home, server) = serve();
    let client = connect(&server);
    let options = SetOptions {
        name: Some("orders".into()),
        tag: vec![1, 2, 3],
        durability: Durability::Discard,
        ..SetOptions::default()
    };
    let orders = client.create_set(options.clone()).unwrap();
    assert!(matches!(client.create_set(options.clone()), Err(Error::Exists(name)) if name == "orders"));
    assert_eq!(client.find_set("orders").unwrap(), Some(orders));
    assert_eq!(client.find_set("lines").unwrap(), None);
    client.retain_set(orders).unwrap();
    assert!(matches!(client.retain_set(SetId(99)), Err(Error::NoSet(SetId(99)))));
    client.set_attributes(orders, Attributes { operation: Some(Operation::Write), ..Attributes::default() }).unwrap();
    let described = client.describe().unwrap();
    assert_eq!((described[0].operation, described[0].users, &described[0].options), (Operation::Write, 2, &options));

    let mut extents = client.allocate(orders, &[1000, 0, 64]).unwrap();
    assert_eq!(extents.iter().map(|extent| extent.len()).collect::<Vec<_>>(), [1000, 0, 64]);
    for (at, extent) in extents.iter_mut().enumerate() {
        extent.as_mut_slice().unwrap().fill(at as u8 + 1);
    }
    let spec = PageSpec {
        key: Some(b"k".to_vec()),
        header: pattern(7, 5000),
        buffers: extents.iter().map(|extent| extent.reference().into()).collect(),
        rows: 10,
        statistics: vec![9; 20],
        rebuild: 5,
    };
    let info = client.seal(orders, spec.clone(), extents).unwrap();
    assert_eq!((info.rows, info.bytes, info.key.as_deref()), (10, 1064, Some(&b"k"[..])));
    assert_eq!(client.pages(orders).unwrap(), home.pages(orders).unwrap());
    assert_eq!(client.find_pages(orders, &[b"k".to_vec(), b"x".to_vec()]).unwrap(), [Some(info.clone()), None]);
    client.prefetch(&[info.page]);
    assert_eq!(home.prefetched(), [info.page]);

    let pinned = client.pin(info.page).unwrap();
    assert_eq!((&pinned.info, &*pinned.header), (&info, &spec.header[..]));
    let read: Vec<_> = pinned.buffers.iter().map(|buffer| buffer.as_slice().to_vec()).collect();
    assert_eq!(read, [vec![1; 1000], vec![], vec![3; 64]]);
    assert_eq!(server.clients()[0].pins, 1);
    drop(pinned);
    assert_eq!(client.counters().unwrap().clients, 1);
    assert_eq!((server.clients()[0].pins, home.pins.load(Ordering::SeqCst)), (0, 0));

    let reservation = client.reserve(10, 1000).unwrap();
    assert_eq!((reservation.bytes, home.reserved.load(Ordering::SeqCst)), (1000, 1000));
    drop(reservation);
    assert!(matches!(client.reserve(LIMIT + 1, LIMIT + 1), Err(Error::Full { .. })));
    assert_eq!(home.reserved.load(Ordering::SeqCst), 0);

    client.drop_page(info.page).unwrap();
    assert!(matches!(client.pin(info.page), Err(Error::NoPage(_))));
    client.release_set(orders);
    client.drop_set(orders).unwrap();
    assert!(matches!(client.drop_set(orders), Err(Error::NoSet(_))));
    assert_eq!(home.used.load(Ordering::SeqCst), 0);
}

#[test]
fn extents_that_are_dropped_are_given_back_without_another_call() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = set(&client);
    drop(client.allocate(set, &[1 << 20, 5]).unwrap());
    // A background thread of the client releases them, without another call.
    while home.used.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.clients()[0].bytes, 0);
}

#[test]
fn a_page_refers_to_a_page_that_is_pinned() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = set(&client);
    let content = pattern(1, 10_000);
    // A page that the server's own process wrote, and one that the client wrote.
    for first in [write_page(&*home, set, &content).unwrap(), write_page(&client, set, &content).unwrap()] {
        let pinned = client.pin(first.page).unwrap();
        let part = &bytes(&pinned)[100..200];
        let (segment, offset) = craton_slab::locate(part.as_ptr(), part.len()).expect("known memory");
        let buffers = vec![Reference { segment: segment.id(), offset: offset as u64, length: 100 }];
        let second = client.seal(set, PageSpec { buffers, ..PageSpec::default() }, Vec::new()).unwrap();
        assert_eq!(bytes(&client.pin(second.page).unwrap()), &content[100..200]);
        assert_eq!(bytes(&client.pin(second.page).unwrap()).as_ptr(), part.as_ptr());
    }
    let nowhere = vec![Reference { segment: 1, offset: 0, length: 1 }];
    let refused = client.seal(set, PageSpec { buffers: nowhere, ..PageSpec::default() }, Vec::new());
    assert!(matches!(refused, Err(Error::Invalid(_))));
}

#[test]
fn a_client_seals_only_what_it_was_given() {
    let (home, server) = serve();
    let (one, other) = (connect(&server), connect(&server));
    let set = named(&one, "set");
    let foreign = other.allocate(set, &[100]).unwrap();
    assert!(matches!(one.seal(set, PageSpec::default(), foreign), Err(Error::Invalid(_))));
    let local = home.allocate(set, &[100]).unwrap();
    assert!(matches!(one.seal(set, PageSpec::default(), local), Err(Error::Invalid(_))));
    // A seal that fails must not keep the extents.
    let own = one.allocate(set, &[100]).unwrap();
    assert!(matches!(one.seal(SetId(77), PageSpec::default(), own), Err(Error::NoSet(_))));
    drop((one, other));
    home.wait_clients(0);
    assert_eq!(home.used.load(Ordering::SeqCst), 0);
}

#[test]
fn a_quota_limits_unsealed_and_pinned_bytes() {
    let (home, server) = serve_with(ServerOptions { quota: 10_000, ..ServerOptions::default() });
    let client = connect(&server);
    let set = set(&client);
    let held = client.allocate(set, &[6400]).unwrap();
    assert!(matches!(client.allocate(set, &[6400]), Err(Error::Quota { asked: 6400, used: 6400, quota: 10_000 })));
    assert!(matches!(client.allocate(set, &[usize::MAX >> 1, usize::MAX >> 1]), Err(Error::Quota { .. })));
    assert!(matches!(client.allocate(set, &[usize::MAX]), Err(Error::Invalid(_))));
    drop(held);
    let page = write_page(&client, set, &[1; 8000]).unwrap().page;
    let other = write_page(&client, set, &[2; 8000]).unwrap().page;
    // A page that is pinned twice counts once; a second page exceeds the quota.
    let pins = (client.pin(page).unwrap(), client.pin(page).unwrap());
    assert!(matches!(client.pin(other), Err(Error::Quota { .. })));
    drop(pins.0);
    assert!(matches!(client.pin(other), Err(Error::Quota { .. })));
    drop(pins.1);
    drop(client.pin(other).unwrap());
    assert!(server.set_quota(client.id().unwrap(), 20_000));
    let _both = (client.pin(page).unwrap(), client.pin(other).unwrap());
    assert_eq!(server.clients()[0].bytes, 16_000);
    assert!(matches!(client.allocate(SetId(99), &[64]), Err(Error::NoSet(_))));
    assert_eq!(server.clients()[0].bytes, 16_000, "a failed call does not count towards the quota");
    assert_eq!(home.pins.load(Ordering::SeqCst), 2);
}

#[test]
fn many_pages_are_pinned_by_one_call() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = set(&client);
    let pages: Vec<PageId> =
        (0..20).map(|seed| write_page(&client, set, &pattern(seed, 70_000)).unwrap().page).collect();
    let pinned = client.pin_many(&pages).unwrap();
    assert_eq!(*home.asked.lock(), [20]);
    for (seed, page) in pinned.iter().enumerate() {
        assert_eq!((page.info.page, bytes(page)), (pages[seed], &pattern(seed as u64, 70_000)[..]));
    }
    assert_eq!((server.clients()[0].pins, server.clients()[0].bytes), (20, 20 * 70_000));
    // A page that is pinned twice has two pins, and its bytes count once.
    let twice = client.pin_many(&[pages[0], pages[0]]).unwrap();
    assert_eq!((server.clients()[0].pins, server.clients()[0].bytes), (22, 20 * 70_000));
    drop((pinned, twice));
    client.counters().unwrap();
    assert_eq!((server.clients()[0].pins, home.pins.load(Ordering::SeqCst)), (0, 0));
    assert!(client.pin_many(&[]).unwrap().is_empty());
}

#[test]
fn of_many_pages_all_are_pinned_or_none() {
    let (home, server) = serve_with(ServerOptions { quota: 20_000, ..ServerOptions::default() });
    let client = connect(&server);
    let set = set(&client);
    let one = |seed| write_page(&client, set, &pattern(seed, 8000)).unwrap().page;
    let pages = [one(0), one(1), one(2)];
    let none_pinned = || {
        assert_eq!((server.clients()[0].pins, server.clients()[0].bytes), (0, 0));
        assert_eq!(home.pins.load(Ordering::SeqCst), 0);
    };
    let missing = PageId { set, number: 99 };
    assert!(matches!(client.pin_many(&[pages[0], missing, pages[1]]), Err(Error::NoPage(page)) if page == missing));
    none_pinned();
    assert!(matches!(client.pin_many(&pages), Err(Error::Quota { asked: 24_000, used: 0, quota: 20_000 })));
    none_pinned();
    // If a page cannot be sent after others were, these are not pinned either, and the client can still be used.
    let large = PageSpec { header: vec![0; (64 << 20) + 1], ..PageSpec::default() };
    let large = home.seal(set, large, Vec::new()).unwrap().page;
    let header = PageSpec { header: vec![0; 3 << 20], ..PageSpec::default() };
    let sent = home.seal(set, header, Vec::new()).unwrap().page;
    assert!(matches!(client.pin_many(&[sent, sent, large, sent]), Err(Error::Invalid(why)) if why.contains("bytes")));
    none_pinned();
    let pinned = client.pin_many(&[sent, pages[0], sent]).unwrap();
    assert_eq!((pinned[0].header.len(), bytes(&pinned[1])), (3 << 20, &pattern(0, 8000)[..]));
}

#[test]
fn a_client_that_is_closed_hangs_up_when_nothing_of_it_is_used() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = named(&client, "set");
    let page = write_page(&client, set, &pattern(5, 5000)).unwrap().page;
    client.close();
    home.wait_clients(0);
    for outcome in [client.pages(set).map(drop), client.pin(page).map(drop), client.counters().map(drop)] {
        assert!(matches!(outcome, Err(Error::Connection { why, .. }) if why.contains("closed its connection")));
    }
    client.close();

    let client = connect(&server);
    let pinned = client.pin(page).unwrap();
    let extents = client.allocate(set, &[100]).unwrap();
    client.close();
    assert!(matches!(client.pin(page), Err(Error::Connection { .. })));
    assert!(matches!(client.seal(set, PageSpec::default(), extents), Err(Error::Connection { .. })));
    assert_eq!((server.clients().len(), home.pins.load(Ordering::SeqCst)), (1, 1), "a page is still pinned");
    assert_eq!(bytes(&pinned), pattern(5, 5000));
    drop(pinned);
    home.wait_clients(0);
    assert_eq!(home.pins.load(Ordering::SeqCst), 0);
}

#[test]
fn long_lists_come_in_parts() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = set(&client);
    for number in 0..3000u32 {
        let statistics = vec![number as u8; 2000];
        let key = Some(number.to_le_bytes().to_vec());
        home.seal(set, PageSpec { key, statistics, ..PageSpec::default() }, Vec::new()).unwrap();
    }
    let pages = client.pages(set).unwrap();
    assert_eq!(pages.len(), 3000);
    assert_eq!(pages, home.pages(set).unwrap());
    let keys: Vec<Vec<u8>> = (0..150_000u32).map(|number| number.to_le_bytes().to_vec()).collect();
    let found = client.find_pages(set, &keys).unwrap();
    assert_eq!(found.iter().flatten().count(), 3000);
    assert_eq!(found[2999].as_ref(), Some(&pages[2999]));
    for name in 0..5000 {
        let options = SetOptions { name: Some(format!("{name}")), tag: vec![0; 1000], ..SetOptions::default() };
        home.create_set(options).unwrap();
    }
    assert_eq!(client.describe().unwrap(), home.describe().unwrap());
    let many = client.allocate(set, &vec![1; 70_000]).unwrap();
    assert_eq!((many.len(), server.clients()[0].extents), (70_000, 70_000));
}

#[test]
fn a_message_that_is_too_large_is_refused_and_the_client_goes_on() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = set(&client);
    let large = PageSpec { header: vec![0; (64 << 20) + 1], ..PageSpec::default() };
    assert!(matches!(client.seal(set, large.clone(), Vec::new()), Err(Error::Invalid(_))));
    // A page of the server's own process that is too large cannot be sent, and is not pinned.
    let page = home.seal(set, large, Vec::new()).unwrap().page;
    assert!(matches!(client.pin(page), Err(Error::Invalid(why)) if why.contains("bytes")));
    assert_eq!(server.clients()[0].pins, 0);
    assert_eq!(client.pages(set).unwrap().len(), 1);
}

#[test]
fn what_a_client_gave_out_outlives_it() {
    let (home, server) = serve();
    let client = connect(&server);
    let set = named(&client, "set");
    let page = write_page(&client, set, &pattern(5, 5000)).unwrap().page;
    let pinned = client.pin(page).unwrap();
    drop(client);
    assert_eq!(home.pins.load(Ordering::SeqCst), 1);
    assert_eq!(bytes(&pinned), pattern(5, 5000));
    drop(pinned);
    home.wait_clients(0);
    assert_eq!(home.pins.load(Ordering::SeqCst), 0);
}

#[test]
fn a_stopped_server_fails_calls_at_once_and_leaves_what_is_mapped() {
    let (home, mut server) = serve();
    let client = connect(&server);
    let set = named(&client, "set");
    let page = write_page(&client, set, &pattern(6, 5000)).unwrap().page;
    let pinned = client.pin(page).unwrap();
    let extents = client.allocate(set, &[100]).unwrap();
    server.stop();
    assert!(server.clients().is_empty());
    assert_eq!(home.pins.load(Ordering::SeqCst), 0);
    for _ in 0..3 {
        match client.pages(set) {
            Err(Error::Connection { address, why }) => {
                assert_eq!(address, server.address().to_string());
                assert!(why.contains("closed the connection"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(client.seal(set, PageSpec::default(), extents), Err(Error::Connection { .. })));
    assert_eq!(bytes(&pinned), pattern(6, 5000));
    assert!(matches!(Client::connect(server.address()), Err(Error::Connection { .. })));
}

#[test]
fn a_socket_file_is_private_and_a_dead_one_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("craton-remote-{}", std::process::id()));
    let path = folder.join("store");
    let start = |path: &std::path::Path| {
        Server::start(FakeHome::new(LIMIT), Address::Path(path.into()), ServerOptions::default())
    };
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let server = start(&path).unwrap();
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    assert!(matches!(start(&path), Err(Error::Connection { .. })));
    connect(&server).counters().unwrap();
    drop(server);
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = start(&path).unwrap();
    connect(&server).counters().unwrap();
    // A server must not remove the socket file of the server that replaced it.
    std::fs::remove_file(&path).unwrap();
    let second = start(&path).unwrap();
    drop(server);
    connect(&second).counters().unwrap();
    drop(second);
    std::fs::write(&path, "text").unwrap();
    assert!(matches!(start(&path), Err(Error::Invalid(why)) if why.contains("not a socket")));
    std::fs::remove_file(&path).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(start(&path), Err(Error::Invalid(why)) if why.contains("777")));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn threads_take_turns_where_no_more_connections_are_to_be_had() {
    let (home, server) = serve_with(ServerOptions { connections: 2, ..ServerOptions::default() });
    let client = connect(&server);
    let set = set(&client);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for _ in 0..50 {
                    write_page(client, set, &pattern(seed, 100)).unwrap();
                }
            });
        }
    });
    assert_eq!(home.pages(set).unwrap().len(), 400);
    assert!(matches!((connect_fails(&server), client.counters()), (true, Ok(_))));
}

fn connect_fails(server: &Server) -> bool {
    // The first client may have one or two connections.
    let clients: Vec<_> = (0..3).map(|_| Client::connect(server.address())).collect();
    clients.iter().any(|client| matches!(client, Err(Error::Connection { .. })))
}

#[test]
fn many_threads_share_a_client() {
    let (home, server) = serve();
    let client = Arc::new(connect(&server));
    let set = set(&*client);
    let pages: Vec<PageId> =
        (0..20).map(|seed| write_page(&*client, set, &pattern(seed, 3000)).unwrap().page).collect();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (client, pages) = (&client, &pages);
            scope.spawn(move || {
                for turn in 0..200 {
                    let at = (thread * 7 + turn) % pages.len();
                    assert_eq!(bytes(&client.pin(pages[at]).unwrap()), pattern(at as u64, 3000));
                    let page = write_page(&**client, set, &pattern(turn as u64, 500)).unwrap().page;
                    assert_eq!(bytes(&client.pin(page).unwrap()), pattern(turn as u64, 500));
                    client.drop_page(page).unwrap();
                }
            });
        }
    });
    let seen = server.clients();
    assert_eq!(seen.len(), 1);
    assert!((2..=8).contains(&seen[0].connections), "{seen:?}");
    client.counters().unwrap();
    assert_eq!((home.pins.load(Ordering::SeqCst), home.used.load(Ordering::SeqCst)), (0, 60_000));
}
