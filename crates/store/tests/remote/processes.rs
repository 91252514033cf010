//! Several processes: shared memory, killed processes, and leaks.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use craton_store::remote::{Address, Client, Server, ServerOptions};
use craton_store::{Error, Home, PageId, PageSpec, Pinned, Reference, SetId, SetOptions};
use parking_lot::Mutex;

use crate::fake::FakeHome;
use crate::support::{LIMIT, Role, bytes, connect, listen, named, pattern, say, serve, set, write_page};

pub fn play(role: &str, address: &Address) -> bool {
    match role {
        "reader" => reader(address),
        "churner" => churner(address),
        "server" => server(),
        "one of many" => one_of_many(address),
        "forker" => forker(),
        "leaker" => leaker(),
        _ => return false,
    }
    true
}

// The inode of the file that is mapped at this address.
fn inode(address: *const u8) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let has = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let (start, end) = (usize::from_str_radix(range.0, 16).unwrap(), usize::from_str_radix(range.1, 16).unwrap());
        (start..end).contains(&address.addr())
    };
    maps.lines().find(has).unwrap().split_whitespace().nth(4).unwrap().to_owned()
}

fn page(text: &str) -> PageId {
    let (set, number) = text.split_once('/').unwrap();
    PageId { set: SetId(set.parse().unwrap()), number: number.parse().unwrap() }
}

#[test]
fn two_processes_use_the_same_memory() {
    let (home, server) = serve();
    let set = named(&*home, "shared");
    let first = write_page(&*home, set, &pattern(1, 1 << 20)).unwrap().page;
    let pinned = home.pin(first).unwrap();
    let used = home.used.load(Ordering::SeqCst);
    let mut reader = Role::start("reader", &server.address().to_string());
    // The reader maps the same memfd, and no memory was allocated for a copy.
    assert_eq!(reader.next().unwrap(), inode(bytes(&pinned).as_ptr()));
    assert_eq!(home.used.load(Ordering::SeqCst), used);
    reader.nod();
    let second = page(&reader.next().unwrap());
    let written = home.pin(second).unwrap();
    assert_eq!(bytes(&written), pattern(2, 1 << 20));
    assert_eq!(reader.next().unwrap(), inode(bytes(&written).as_ptr()));
    let pid = reader.child.id();
    let seen = server.clients();
    assert_eq!((seen.len(), seen[0].pid, seen[0].pins), (1, pid, 1));
    reader.finish();
    home.wait_clients(0);
    assert_eq!(bytes(&written), pattern(2, 1 << 20), "the page outlives the process that wrote it");
}

fn reader(address: &Address) {
    let client = Client::connect(address).unwrap();
    let set = client.find_set("shared").unwrap().unwrap();
    let first = client.pages(set).unwrap()[0].page;
    let pinned = client.pin(first).unwrap();
    assert_eq!(bytes(&pinned), pattern(1, 1 << 20));
    say(inode(bytes(&pinned).as_ptr()));
    listen();
    let mut extents = client.allocate(set, &[1 << 20]).unwrap();
    extents[0].as_mut_slice().unwrap().copy_from_slice(&pattern(2, 1 << 20));
    let memory = inode(extents[0].as_ptr());
    let buffers = vec![Reference::from(extents[0].reference())];
    let info = client.seal(set, PageSpec { buffers, ..PageSpec::default() }, extents).unwrap();
    say(info.page);
    say(memory);
    listen();
}

#[test]
fn a_client_that_is_killed_loses_what_it_held_and_nothing_else() {
    let (home, server) = serve();
    let kept = named(&*home, "kept");
    let standing = write_page(&*home, kept, &pattern(0, 1000)).unwrap().page;
    let mut acknowledged = vec![(standing, 0, 1000)];
    for turn in 0..50u64 {
        let mut churner = Role::start("churner", &server.address().to_string());
        // Kill it at a different moment each time: after a different number of messages, in the middle of the operations that follow.
        for _ in 0..(turn * 7) % 23 {
            let said = churner.next().unwrap();
            let mut words = said.split(' ');
            let page = page(words.next().unwrap());
            let seed = words.next().unwrap().parse().unwrap();
            acknowledged.push((page, seed, words.next().unwrap().parse().unwrap()));
        }
        churner.kill();
        home.wait_clients(0);
        assert!(server.clients().is_empty());
        assert_eq!(home.pins.load(Ordering::SeqCst), 0, "turn {turn}");
        assert_eq!(home.reserved.load(Ordering::SeqCst), 0, "turn {turn}");
        assert_eq!(home.used.load(Ordering::SeqCst), home.sealed_bytes(), "turn {turn}");
        assert_eq!(home.set_count(), 1, "unnamed sets are dropped with their last user; turn {turn}");
    }
    assert!(acknowledged.len() > 400);
    for (page, seed, length) in acknowledged {
        assert_eq!(bytes(&home.pin(page).unwrap()), pattern(seed, length), "page {page}");
    }
}

fn churner(address: &Address) {
    let client = Client::connect(address).unwrap();
    let kept = client.find_set("kept").unwrap().unwrap();
    let mut held: Vec<Pinned> = Vec::new();
    let mut extents = Vec::new();
    let mut reservations = Vec::new();
    for turn in 0u64.. {
        let own = set(&client);
        client.retain_set(own).unwrap();
        let seed = u64::from(std::process::id()) * 1000 + turn;
        let length = 100 + (seed % 5000) as usize;
        extents.extend(client.allocate(own, &[length, 10_000]).unwrap());
        reservations.push(client.reserve(0, 1 << 20).unwrap());
        write_page(&client, own, &pattern(seed, 300)).unwrap();
        let page = write_page(&client, kept, &pattern(seed, length)).unwrap().page;
        say(format!("{page} {seed} {length}"));
        held.extend(client.pin_many(&[page, page]).unwrap());
        if turn % 3 == 0 {
            held.clear();
            extents.clear();
            reservations.clear();
            client.release_set(own);
        }
    }
}

#[test]
fn a_server_that_is_killed_fails_every_call_at_once() {
    let mut role = Role::start("server", "-");
    let address: Address = role.next().unwrap().parse().unwrap();
    let client = Client::connect(&address).unwrap();
    let set = set(&client);
    let page = write_page(&client, set, &pattern(3, 10_000)).unwrap().page;
    let pinned = client.pin(page).unwrap();
    let extents = client.allocate(set, &[100]).unwrap();
    std::thread::scope(|scope| {
        // Keep calls in flight while the server dies.
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        if let Err(e) = client.pin(page) {
                            return e;
                        }
                    }
                })
            })
            .collect();
        role.kill();
        for caller in callers {
            let error = caller.join().unwrap();
            assert!(matches!(&error, Error::Connection { address: at, .. } if *at == address.to_string()), "{error}");
        }
    });
    assert!(matches!(client.counters(), Err(Error::Connection { .. })));
    assert!(matches!(client.allocate(set, &[1]), Err(Error::Connection { .. })));
    assert_eq!(bytes(&pinned), pattern(3, 10_000));
    drop((extents, pinned));
}

fn server() {
    let (_home, server) = serve();
    say(server.address());
    listen();
}

#[test]
fn sixty_four_clients_at_once() {
    let (home, server) = serve();
    let set = named(&*home, "all");
    let mut roles: Vec<Role> = (0..64).map(|_| Role::start("one of many", &server.address().to_string())).collect();
    let mut pages = Vec::new();
    for role in &mut roles {
        pages.push(page(&role.next().unwrap()));
    }
    assert_eq!(server.clients().len(), 64);
    assert_eq!(home.counters().unwrap().clients, 64);
    roles.into_iter().for_each(|role| drop(role.finish()));
    home.wait_clients(0);
    assert_eq!(home.pages(set).unwrap().len(), 64 * 20);
    for page in pages {
        home.pin(page).unwrap();
    }
}

fn one_of_many(address: &Address) {
    let client = Client::connect(address).unwrap();
    let set = client.find_set("all").unwrap().unwrap();
    let mut last = None;
    for seed in 0..20 {
        last = Some(write_page(&client, set, &pattern(seed, 5000)).unwrap().page);
        for info in client.pages(set).unwrap().iter().rev().take(10) {
            assert_eq!(client.pin(info.page).unwrap().info, *info);
        }
    }
    say(last.unwrap());
    listen();
}

#[test]
fn a_forked_process_is_a_client_of_its_own() {
    Role::start("forker", "-").finish();
}

fn forker() {
    let (home, server) = serve();
    let client = Arc::new(connect(&server));
    let set = set(&*client);
    let page = write_page(&*client, set, &pattern(4, 100)).unwrap().page;
    let pinned = Mutex::new(Some(client.pin(page).unwrap()));
    let extents = Mutex::new(Some(client.allocate(set, &[1000]).unwrap()));
    let held = Arc::new((pinned, extents));
    let (inherited, inherited_held) = (Arc::clone(&client), Arc::clone(&held));
    let parent = client.id().unwrap();
    let in_the_child = move || {
        drop((inherited_held.0.lock().take(), inherited_held.1.lock().take()));
        let pinned = inherited.pin(page).map_err(std::io::Error::other)?;
        let id = inherited.id().map_err(std::io::Error::other)?;
        let clients = inherited.counters().map_err(std::io::Error::other)?.clients;
        if bytes(&pinned) != pattern(4, 100) || id == parent || clients != 2 {
            return Err(std::io::Error::other("the child's pages, id or client count are wrong"));
        }
        Ok(())
    };
    let mut command = Command::new("true");
    // SAFETY: no other thread of this process holds a lock that the closure needs: the server's threads wait for messages, the client's for work.
    unsafe { command.pre_exec(in_the_child) };
    assert!(command.status().unwrap().success());
    home.wait_clients(1);
    let seen = server.clients();
    assert_eq!(
        (seen[0].client, seen[0].pins, seen[0].extents),
        (parent, 1, 1),
        "the child must not release anything that its parent holds"
    );
    assert_eq!(bytes(held.0.lock().as_ref().unwrap()), pattern(4, 100));
    // The command's closure holds references, too.
    drop((command, held));
    client.counters().unwrap();
    assert_eq!((home.pins.load(Ordering::SeqCst), server.clients()[0].bytes), (0, 0));
}

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    Role::start("leaker", "-").finish();
}

fn leaker() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:").count();
    let (home, mut server) = serve();
    let set = named(&*home, "set");
    let page = write_page(&*home, set, &pattern(1, 1000)).unwrap().page;
    // Sharing the segment adds a descriptor, the one for readers.
    let idle = descriptors() + 1;
    let turn = || {
        let client = connect(&server);
        assert_eq!(bytes(&client.pin(page).unwrap()), pattern(1, 1000));
        let mine = write_page(&client, set, &pattern(2, 1000)).unwrap().page;
        assert_eq!(bytes(&client.pin(mine).unwrap()), pattern(2, 1000));
        client.drop_page(mine).unwrap();
        drop(client);
        home.wait_clients(0);
    };
    turn();
    while descriptors() > idle {
        std::thread::yield_now();
    }
    let before = (descriptors(), maps());
    (0..1000).for_each(|_| turn());
    // The accepting thread closes the pidfd of a client's process shortly after the client has disconnected.
    let begun = std::time::Instant::now();
    while descriptors() > before.0 || maps() > before.1 {
        assert!(begun.elapsed().as_secs() < 60, "{before:?} {:?}", (descriptors(), maps()));
        std::thread::yield_now();
    }
    // A connected client unmaps the segments that the server has dropped.
    let client = connect(&server);
    let other = home.create_set(SetOptions::default()).unwrap();
    home.forget_slabs();
    let in_its_own = write_page(&*home, other, &[1; 5000]).unwrap().page;
    drop(client.pin(in_its_own).unwrap());
    let mapped = maps();
    home.drop_set(other).unwrap();
    home.forget_slabs();
    // Two mappings of the segment must go: the server's, and the client's after the server has announced the drop.
    while maps() > mapped - 2 {
        client.counters().unwrap();
    }
    server.stop();
    assert_eq!(home.served(), 1002);
}

#[test]
fn a_receiver_cannot_map_a_segment_for_writing() {
    let (home, server) = serve();
    let (writer, receiver) = (connect(&server), connect(&server));
    let set = named(&writer, "set");
    let by_server = write_page(&*home, set, &[1; 100]).unwrap().page;
    let by_client = write_page(&writer, set, &[2; 100]).unwrap().page;
    for page in [by_server, by_client] {
        let pinned = receiver.pin(page).unwrap();
        let segment = pinned.buffers[0].extent.segment();
        assert!(!segment.is_writable());
        let map = |protection| {
            let (start, flags) = (std::ptr::null_mut(), rustix::mm::MapFlags::SHARED);
            // SAFETY: a fresh mapping, at an address that the kernel chooses.
            unsafe { rustix::mm::mmap(start, 4096, protection, flags, segment.fd(), 0) }
        };
        use rustix::mm::ProtFlags;
        assert!(map(ProtFlags::READ | ProtFlags::WRITE).is_err());
        let read = map(ProtFlags::READ).unwrap();
        // SAFETY: the mapping that was just made.
        unsafe {
            assert!(rustix::mm::mprotect(read, 4096, rustix::mm::MprotectFlags::WRITE).is_err());
            rustix::mm::munmap(read, 4096).unwrap();
        }
        assert!(rustix::io::pwrite(segment.fd(), &[9], 0).is_err());
        assert!(rustix::fs::ftruncate(segment.fd(), 0).is_err());
    }
    let mut extent = writer.allocate(set, &[100]).unwrap().remove(0);
    extent.as_mut_slice().unwrap().fill(3);
}

#[test]
fn two_servers_of_one_process_do_not_meet() {
    let (one, two) = (FakeHome::new(LIMIT), FakeHome::new(LIMIT));
    let first = Server::start(one, Address::unique(), ServerOptions::default()).unwrap();
    let second = Server::start(two, Address::unique(), ServerOptions::default()).unwrap();
    named(&connect(&first), "here");
    assert_eq!(connect(&second).find_set("here").unwrap(), None);
    let taken = Server::start(FakeHome::new(LIMIT), first.address().clone(), ServerOptions::default());
    assert!(matches!(taken, Err(Error::Connection { .. })));
}
