//! How ranks find each other: each listens at an address; those with a higher number connect to those with a lower one.

mod address;
mod local;

use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::auth::{Hello, Kind, Secret};
use crate::bell::Bell;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::remote_memory;
use crate::state::State;
use crate::world::{Pair, World};
use address::Address;
use local::Inbox;

/// How long a connection that has not authenticated is waited for, and how many there may be.
const HANDSHAKE: Duration = Duration::from_secs(5);
const MOST_STRANGERS: usize = 128;

/// The options of an endpoint.
#[derive(Debug, Clone, Default)]
pub struct EndpointOptions {
    /// The name or number at which other machines reach this one; without it, only processes of this machine do.
    pub host: Option<String>,
    /// Use TCP between processes of one machine, too.
    pub tcp: bool,
}

/// The end of a rank to which others connect.
#[derive(Debug)]
pub struct Endpoint {
    tcp: TcpListener,
    local: Option<UnixListener>,
    address: Vec<u8>,
}

/// Who a rank is, and what it needs to reach the others.
pub struct Membership<'a> {
    /// Its number.
    pub rank: usize,
    /// The addresses of all ranks, by number.
    pub addresses: &'a [Vec<u8>],
    /// The key that all ranks share.
    pub key: &'a [u8],
    /// How long the others are waited for.
    pub patience: Duration,
}

impl Endpoint {
    /// Listen for other ranks. They are answered from [`Endpoint::connect`] on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a host that this machine does not have; [`Error::System`] without sockets.
    pub fn bind(options: &EndpointOptions) -> Result<Self> {
        let host = options.host.as_deref().unwrap_or("127.0.0.1");
        let tcp = TcpListener::bind((host, 0)).map_err(|e| {
            Error::Invalid(format!("cannot listen at {host:?}: {e}; pass a name or number of this machine"))
        })?;
        let port = tcp.local_addr().map_err(|e| Error::system("the address of a socket", e))?.port();
        let (local, name) = if options.tcp { (None, String::new()) } else { listen_locally()? };
        let address = Address::new(name, vec![host.to_owned()], port)?.encode();
        Ok(Self { tcp, local, address })
    }

    /// The address, to be given to all ranks.
    #[must_use]
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// Connect with all other ranks, which call this at the same time.
    ///
    /// # Errors
    /// [`Error::Failed`] for a rank that cannot be reached in time, [`Error::Refused`] for one with another key, [`Error::Invalid`] for
    /// arguments that cannot be right, [`Error::Interrupted`] when the hook returns false.
    pub fn connect(self, membership: &Membership<'_>, hook: &mut dyn FnMut() -> bool) -> Result<Group> {
        let (rank, size) = (membership.rank, membership.addresses.len());
        let Some(own) = membership.addresses.get(rank) else {
            return Err(Error::Invalid(format!("rank {rank} is not below the number of addresses, {size}")));
        };
        if *own != self.address {
            return Err(Error::Invalid(format!("the address of rank {rank} is not that of the endpoint")));
        }
        let addresses: Vec<Address> =
            membership.addresses.iter().map(|bytes| Address::decode(bytes)).collect::<Result<_>>()?;
        let meeting = Arc::new(Meeting::new(rank, addresses, Secret::new(membership.key, membership.addresses))?);
        let stopping = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = channel();
        let (wake, woken) = UnixStream::pair().map_err(|e| Error::system("a socket to wake a thread", e))?;
        let accepting = accept(self, &meeting, woken, &sender);
        for other in 0..rank {
            let (meeting, sender, stopping) = (meeting.clone(), sender.clone(), stopping.clone());
            let deadline = Instant::now() + membership.patience;
            spawn(move || {
                if let Err(error) = meeting.reach(other, deadline, &stopping, &sender) {
                    let _ = sender.send(Err((other, error)));
                }
            })?;
        }
        let pairs = collect(&meeting, &arrivals, membership.patience, hook);
        stopping.store(true, Ordering::SeqCst);
        drop(wake);
        let _ = accepting?.join();
        let here = &meeting.addresses[rank].machine;
        let neighbours = meeting.addresses.iter().filter(|address| address.machine == *here).count();
        let world = World::open(rank, meeting.machines(), neighbours, meeting.state.clone(), pairs?)?;
        Ok(Group::whole(world, size))
    }
}

type Arrival = std::result::Result<(usize, Kind, Connected), (usize, Error)>;

enum Connected {
    Local(Box<(UnixStream, crate::channel::Local, Option<std::os::fd::OwnedFd>)>),
    Tcp(TcpStream),
}

/// What the threads that connect share.
struct Meeting {
    rank: usize,
    addresses: Vec<Address>,
    secret: Secret,
    inbox: Inbox,
    state: Arc<State>,
    strangers: AtomicUsize,
}

impl Meeting {
    fn new(rank: usize, addresses: Vec<Address>, secret: Secret) -> Result<Self> {
        let others = (0..addresses.len()).filter(|&other| are_local(&addresses, rank, other)).count();
        if others > 0 {
            remote_memory::permit();
        }
        let inbox = Inbox::new(others)?;
        let bell = Bell::own(inbox.segment.clone())?;
        let state = Arc::new(State::new(bell, addresses.len()));
        Ok(Self { rank, addresses, secret, inbox, state, strangers: AtomicUsize::new(0) })
    }

    /// The number of each rank's machine.
    fn machines(&self) -> Vec<usize> {
        let first = |address: &Address| {
            let same =
                |one: &Address| one.machine == address.machine && !one.local.is_empty() && !address.local.is_empty();
            self.addresses.iter().position(same)
        };
        self.addresses.iter().enumerate().map(|(rank, address)| first(address).unwrap_or(rank)).collect()
    }

    /// Connect to a rank with a lower number.
    fn reach(&self, other: usize, deadline: Instant, stopping: &AtomicBool, sender: &Sender<Arrival>) -> Result<()> {
        let local = are_local(&self.addresses, self.rank, other);
        let kinds = if local { &[Kind::Local][..] } else { &[Kind::Control, Kind::Data] };
        for &kind in kinds {
            let connected = loop {
                match self.try_reach(other, kind, deadline) {
                    Ok(connected) => break connected,
                    Err(error @ (Error::Refused(_) | Error::Invalid(_))) => return Err(error),
                    Err(error) => {
                        if Instant::now() >= deadline {
                            return Err(error);
                        }
                    }
                }
                if stopping.load(Ordering::SeqCst) {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            let _ = sender.send(Ok((other, kind, connected)));
        }
        Ok(())
    }

    fn try_reach(&self, other: usize, kind: Kind, deadline: Instant) -> Result<Connected> {
        let address = &self.addresses[other];
        let hello = Hello { rank: self.rank as u32, size: self.addresses.len() as u32, kind };
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let failed = |e: std::io::Error| Error::system("connect to another rank", e);
        if kind == Kind::Local {
            let mut stream = connect_locally(&address.local).map_err(failed)?;
            stream.set_read_timeout(Some(left)).map_err(failed)?;
            self.secret.greet(&mut stream, hello)?;
            return self.share(stream, other);
        }
        let mut last = Error::system("connect to another rank", "it has no host");
        for host in &address.hosts {
            let found = (host.as_str(), address.port).to_socket_addrs().map_err(failed)?;
            for socket in found {
                match TcpStream::connect_timeout(&socket, left.min(HANDSHAKE)) {
                    Ok(mut stream) => {
                        stream.set_nodelay(true).map_err(failed)?;
                        stream.set_read_timeout(Some(left)).map_err(failed)?;
                        self.secret.greet(&mut stream, hello)?;
                        return Ok(Connected::Tcp(stream));
                    }
                    Err(error) => last = failed(error),
                }
            }
        }
        Err(last)
    }

    /// Answer a connection; `None` if it is not one of a rank that is expected.
    fn answer(&self, connected: Accepted) -> Option<(usize, Kind, Connected)> {
        match connected {
            Accepted::Local(mut stream) => {
                stream.set_read_timeout(Some(HANDSHAKE)).ok()?;
                let hello = self.secret.serve(&mut stream)?;
                let other = self.expected(hello, true)?;
                Some((other, hello.kind, self.share(stream, other).ok()?))
            }
            Accepted::Tcp(mut stream) => {
                stream.set_nodelay(true).ok()?;
                stream.set_read_timeout(Some(HANDSHAKE)).ok()?;
                let hello = self.secret.serve(&mut stream)?;
                let other = self.expected(hello, false)?;
                Some((other, hello.kind, Connected::Tcp(stream)))
            }
        }
    }

    fn expected(&self, hello: Hello, local: bool) -> Option<usize> {
        let other = hello.rank as usize;
        let fits = other > self.rank && other < self.addresses.len() && hello.size as usize == self.addresses.len();
        let kind = (hello.kind == Kind::Local) == local && local == are_local(&self.addresses, self.rank, other);
        (fits && kind).then_some(other)
    }

    /// Exchange shared memory.
    fn share(&self, mut stream: UnixStream, other: usize) -> Result<Connected> {
        let place = (0..other).filter(|&rank| are_local(&self.addresses, self.rank, rank)).count();
        let (local, process) = self.inbox.exchange(&mut stream, self.state.bell.ringer(), place)?;
        Ok(Connected::Local(Box::new((stream, local, process))))
    }
}

fn are_local(addresses: &[Address], rank: usize, other: usize) -> bool {
    let Some(theirs) = addresses.get(other) else { return false };
    let ours = &addresses[rank];
    rank != other && ours.machine == theirs.machine && !ours.local.is_empty() && !theirs.local.is_empty()
}

enum Accepted {
    Local(UnixStream),
    Tcp(TcpStream),
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    crate::world::without_signals(|| std::thread::Builder::new().name("craton-comm".into()).spawn(work))
        .map_err(|e| Error::system("start a thread", e))
}

/// Accept connections in a thread, each of which is answered in a thread of its own. The thread ends when
/// the other end of `woken` is closed.
fn accept(
    endpoint: Endpoint,
    meeting: &Arc<Meeting>,
    woken: UnixStream,
    sender: &Sender<Arrival>,
) -> Result<std::thread::JoinHandle<()>> {
    let (meeting, sender) = (meeting.clone(), sender.clone());
    let unblocked = endpoint.tcp.set_nonblocking(true);
    let unblocked =
        unblocked.and_then(|()| endpoint.local.as_ref().map_or(Ok(()), |local| local.set_nonblocking(true)));
    unblocked.map_err(|e| Error::system("a listening socket", e))?;
    spawn(move || {
        loop {
            let mut watched = vec![
                PollFd::from_borrowed_fd(endpoint.tcp.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
            ];
            if let Some(local) = &endpoint.local {
                watched.push(PollFd::from_borrowed_fd(local.as_fd(), PollFlags::IN));
            }
            let _ = poll(&mut watched, None);
            if !watched[1].revents().is_empty() {
                return;
            }
            let local = endpoint
                .local
                .as_ref()
                .and_then(|local| local.accept().ok())
                .map(|(stream, _)| Accepted::Local(stream));
            let tcp = endpoint.tcp.accept().ok().map(|(stream, _)| Accepted::Tcp(stream));
            for accepted in [local, tcp].into_iter().flatten() {
                let blocking = match &accepted {
                    Accepted::Local(stream) => stream.set_nonblocking(false),
                    Accepted::Tcp(stream) => stream.set_nonblocking(false),
                };
                if blocking.is_err() || meeting.strangers.fetch_add(1, Ordering::SeqCst) >= MOST_STRANGERS {
                    meeting.strangers.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                let (meeting, sender) = (meeting.clone(), sender.clone());
                let _ = spawn(move || {
                    if let Some(arrival) = meeting.answer(accepted) {
                        let _ = sender.send(Ok(arrival));
                    }
                    meeting.strangers.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
    })
}

/// Wait until all ranks are connected.
fn collect(
    meeting: &Meeting,
    arrivals: &Receiver<Arrival>,
    patience: Duration,
    hook: &mut dyn FnMut() -> bool,
) -> Result<Vec<Option<Pair>>> {
    let size = meeting.addresses.len();
    let mut pairs: Vec<Option<Pair>> = (0..size).map(|_| None).collect();
    let mut halves: Vec<(Option<TcpStream>, Option<TcpStream>)> = (0..size).map(|_| (None, None)).collect();
    let deadline = Instant::now() + patience;
    loop {
        let missing = (0..size).find(|&other| other != meeting.rank && pairs[other].is_none());
        let Some(missing) = missing else { return Ok(pairs) };
        let arrival = match arrivals.recv_timeout(Duration::from_millis(50)) {
            Ok(arrival) => arrival,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                if !hook() {
                    return Err(Error::Interrupted);
                }
                if Instant::now() < deadline {
                    continue;
                }
                let reason = format!("it did not connect within {:.1} s", patience.as_secs_f64());
                return Err(Error::Failed { rank: missing, reason });
            }
        };
        match arrival {
            Err((_, error @ Error::Invalid(_))) => return Err(error),
            Err((rank, Error::Refused(text))) => return Err(Error::Refused(format!("rank {rank} {text}"))),
            Err((rank, error)) => return Err(Error::Failed { rank, reason: error.to_string() }),
            Ok((other, _, Connected::Local(parts))) => {
                let (stream, local, process) = *parts;
                pairs[other] = Some(Pair::Local { stream, local: Box::new(local), process });
            }
            Ok((other, kind, Connected::Tcp(stream))) => {
                let half = &mut halves[other];
                *(if kind == Kind::Control { &mut half.0 } else { &mut half.1 }) = Some(stream);
                if let (Some(_), Some(_)) = half {
                    let (Some(control), Some(data)) = std::mem::take(half) else { unreachable!("both are there") };
                    pairs[other] = Some(Pair::Remote { control, data });
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn listen_locally() -> Result<(Option<UnixListener>, String)> {
    use std::os::linux::net::SocketAddrExt;
    let random = crate::auth::nonce().ok_or_else(|| Error::system("random numbers", "the system has none"))?;
    let name: String = random[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("craton-comm-{name}");
    let address =
        std::os::unix::net::SocketAddr::from_abstract_name(&name).map_err(|e| Error::system("a Unix socket", e))?;
    let listener = UnixListener::bind_addr(&address).map_err(|e| Error::system("a Unix socket", e))?;
    Ok((Some(listener), name))
}

#[cfg(target_os = "linux")]
fn connect_locally(name: &str) -> std::io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt;
    UnixStream::connect_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

/// Without an abstract namespace, all ranks use TCP.
#[cfg(not(target_os = "linux"))]
fn listen_locally() -> Result<(Option<UnixListener>, String)> {
    Ok((None, String::new()))
}

#[cfg(not(target_os = "linux"))]
fn connect_locally(_name: &str) -> std::io::Result<UnixStream> {
    Err(std::io::ErrorKind::Unsupported.into())
}
