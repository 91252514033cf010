//! The server: offers a home to other processes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Result;
use super::address::{Address, Listener};
use super::answer::Connection;
use super::descriptors::Channel;
use super::protocol::{Broken, Hello, MOST_HELLO, VERSION, Welcome};
use super::serving::{ClientId, ClientInfo, Serving};
use super::session::Session;
use crate::error::Error;

/// The options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The most bytes of unsealed extents and pinned pages that a client may have.
    pub quota: u64,
    /// The timeout of the handshake.
    pub handshake: Duration,
    /// The timeout for a client to complete a message that it has begun, or to read an answer.
    pub stall: Duration,
    /// The most open connections.
    pub connections: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let (handshake, stall) = (Duration::from_secs(5), Duration::from_secs(30));
        Self { quota: u64::MAX, handshake, stall, connections: 4096 }
    }
}

struct Shared {
    home: Arc<dyn Serving>,
    options: ServerOptions,
    uid: u32,
    stopping: AtomicBool,
    next: AtomicU64,
    clients: Mutex<HashMap<ClientId, Arc<Session>>>,
    sockets: Mutex<HashMap<u64, Arc<UnixStream>>>,
    // New client processes for the accepting thread to watch.
    watched: Mutex<Vec<(OwnedFd, Weak<Session>)>>,
    // An eventfd that wakes the accepting thread.
    wake: OwnedFd,
}

/// Serves a home to other processes, which use a [`Client`](super::Client). One thread accepts connections, and each connection has a thread.
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    thread: Option<JoinHandle<()>>,
    // The process of the threads: a forked child has a copy of this value without threads to wait for.
    process: u32,
}

impl Server {
    /// Serve `home` at `address` until [`Server::stop`] or until this value is dropped.
    ///
    /// # Errors
    /// [`Connection`](Error::Connection) when another server listens there; [`Invalid`](Error::Invalid) when other users can write to the
    /// folder of the socket; [`Io`](Error::Io).
    pub fn start(home: Arc<dyn Serving>, address: Address, options: ServerOptions) -> Result<Self> {
        let io = |what: &str, e: std::io::Error| Error::Io {
            what: format!("{what} for the server at {address}"),
            why: e.to_string(),
            code: e.raw_os_error().unwrap_or(0),
        };
        let listener = address.listen()?;
        listener.listener.set_nonblocking(true).map_err(|e| io("set up the socket", e))?;
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| io("make an eventfd", e.into()))?;
        let shared = Arc::new(Shared {
            home,
            options,
            uid: rustix::process::geteuid().as_raw(),
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(1),
            clients: Mutex::default(),
            sockets: Mutex::default(),
            watched: Mutex::default(),
            wake,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("craton-server".into())
            .spawn(move || own.accept(&listener))
            .map_err(|e| io("start a thread", e))?;
        Ok(Self { shared, address, thread: Some(thread), process: std::process::id() })
    }

    /// The address that it listens at.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The connected clients, ordered by id.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientInfo> {
        let sessions: Vec<Arc<Session>> = self.shared.clients.lock().values().cloned().collect();
        let mut clients: Vec<ClientInfo> = sessions.iter().map(|session| session.info()).collect();
        clients.sort_by_key(|client| client.client);
        clients
    }

    /// Change a client's quota, in bytes; returns whether there is such a client. The client keeps what it has already.
    pub fn set_quota(&self, client: ClientId, bytes: u64) -> bool {
        self.shared.clients.lock().get(&client).map(|session| session.set_quota(bytes)).is_some()
    }

    /// Close all connections, and wait until everything that clients held was released.
    pub fn stop(&mut self) {
        if std::process::id() != self.process {
            return;
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.look();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

// Cleans up at the end of a connection's thread, even after a panic in the home.
struct Ending<'a> {
    shared: &'a Shared,
    connection: u64,
    session: Option<Arc<Session>>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(socket) = self.shared.sockets.lock().remove(&self.connection) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(session) = self.session.take() {
            self.shared.end(&session);
        }
    }
}

impl Shared {
    // Wake the accepting thread.
    fn look(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn end(&self, session: &Arc<Session>) {
        let known = self.clients.lock().remove(&session.client);
        session.end();
        drop(known);
        self.look();
    }

    fn accept(self: Arc<Self>, listener: &Listener) {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let mut watched: Vec<(OwnedFd, Weak<Session>)> = Vec::new();
        let mut exhausted = false;
        while !self.stopping.load(Ordering::SeqCst) {
            watched.append(&mut self.watched.lock());
            watched.retain(|(_, session)| session.upgrade().is_some_and(|session| !session.ended()));
            threads.retain(|thread| !thread.is_finished());
            let dead = self.wait(listener, &watched, exhausted);
            for session in dead.into_iter().filter_map(|at| watched[at].1.upgrade()) {
                self.end(&session);
            }
            exhausted = false;
            loop {
                match listener.listener.accept() {
                    Ok((socket, _)) => threads.extend(self.spawn(socket)),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(e) => {
                        tracing::warn!(error = %e, "cannot accept connections");
                        exhausted = true;
                        break;
                    }
                }
            }
        }
        for socket in self.sockets.lock().values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let sessions: Vec<_> = self.clients.lock().values().cloned().collect();
        sessions.iter().for_each(|session| self.end(session));
        drop(sessions);
        for thread in threads {
            let _ = thread.join();
        }
    }

    // Wait for a connection or the death of a client process; returns which of the watched processes have ended. If connections cannot be
    // accepted (too many open files), wait a little before the next attempt.
    fn wait(&self, listener: &Listener, watched: &[(OwnedFd, Weak<Session>)], exhausted: bool) -> Vec<usize> {
        let events = if exhausted { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(listener.listener.as_fd(), events),
        ];
        polled.extend(watched.iter().map(|(process, _)| PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)));
        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if poll(&mut polled, exhausted.then_some(&pause)).is_err() {
            return Vec::new();
        }
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let ended = polled[2..].iter().enumerate().filter(|(_, process)| !process.revents().is_empty());
        ended.map(|(at, _)| at).collect()
    }

    fn spawn(self: &Arc<Self>, socket: UnixStream) -> Option<JoinHandle<()>> {
        // On Linux an accepted socket does not inherit the non-blocking mode; on other systems it does.
        socket.set_nonblocking(false).ok()?;
        let connection = self.next.fetch_add(1, Ordering::Relaxed);
        let socket = Arc::new(socket);
        {
            let mut sockets = self.sockets.lock();
            if sockets.len() as u64 >= self.options.connections {
                tracing::warn!(most = self.options.connections, "too many connections: a new one was refused");
                return None;
            }
            sockets.insert(connection, Arc::clone(&socket));
        }
        let own = Arc::clone(self);
        let thread =
            std::thread::Builder::new().name("craton-client".into()).spawn(move || own.serve(connection, socket));
        thread.inspect_err(|_| drop(self.sockets.lock().remove(&connection))).ok()
    }

    fn serve(self: Arc<Self>, connection: u64, socket: Arc<UnixStream>) {
        let mut ending = Ending { shared: &self, connection, session: None };
        match self.greet(connection, socket) {
            Ok((session, channel)) => {
                ending.session = Some(Arc::clone(&session));
                let client = session.client;
                match Connection::new(session, channel, self.options.stall).run() {
                    Broken::Closed => tracing::debug!(%client, "a client has disconnected"),
                    why => tracing::warn!(%client, %why, "a client was disconnected"),
                }
            }
            Err(why) => tracing::warn!(%why, "the handshake of a connection failed"),
        }
    }

    // Perform the handshake; returns the session of the client.
    fn greet(&self, connection: u64, socket: Arc<UnixStream>) -> Result<(Arc<Session>, Channel), Broken> {
        let peer = rustix::net::sockopt::socket_peercred(&*socket).map_err(std::io::Error::from)?;
        let (pid, uid) = (peer.pid.as_raw_nonzero().get().unsigned_abs(), peer.uid.as_raw());
        let mut channel = Channel::new(socket, false, Some(self.options.handshake))?;
        let refuse = |channel: &mut Channel, why: String| {
            channel.send(&Welcome::Refused(why.clone()), &[], MOST_HELLO)?;
            Err(Broken::Malformed(why))
        };
        if uid != self.uid {
            let why = format!("it serves processes of user {} only; this process belongs to user {uid}", self.uid);
            return refuse(&mut channel, why);
        }
        let hello: Hello = channel.receive(MOST_HELLO)?;
        if hello.version != VERSION {
            let why = format!("it uses version {VERSION} of the protocol, and this client version {}", hello.version);
            return refuse(&mut channel, why);
        }
        let joined = match hello.join {
            None => Some(self.open(pid, uid)),
            Some((client, key)) => {
                let session = self.clients.lock().get(&client).cloned();
                session.filter(|session| session.key == key && session.pid == pid)
            }
        };
        let Some(session) = joined else { return refuse(&mut channel, "it has no such client".into()) };
        // If anything fails from here on, dropping this ends the session.
        let mut ending = Ending { shared: self, connection: 0, session: Some(Arc::clone(&session)) };
        let ended = |_| Broken::Closed;
        session.join(connection, channel.socket()).map_err(ended)?;
        channel.send(&Welcome::Accepted { client: session.client, key: session.key }, &[], MOST_HELLO)?;
        channel.set_patience(Some(self.options.stall))?;
        ending.session = None;
        Ok((session, channel))
    }

    fn open(&self, pid: u32, uid: u32) -> Arc<Session> {
        let client = ClientId(self.next.fetch_add(1, Ordering::Relaxed));
        let key = RandomState::new().hash_one(client);
        let session = Session::open(client, key, (pid, uid), self.options.quota, Arc::clone(&self.home));
        self.clients.lock().insert(client, Arc::clone(&session));
        // Watch the client's process, because its sockets may be inherited by children that outlive it.
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(process) = process.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            self.watched.lock().push((process, Arc::downgrade(&session)));
            self.look();
        }
        session
    }
}
