//! Helpers of the tests: servers, child processes and pages.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use craton_store::remote::{Address, Client, Server, ServerOptions};
use craton_store::{DataInfo, Home, PageSpec, Pinned, Reference, Result, SetId, SetOptions};

use crate::fake::FakeHome;

pub const LIMIT: u64 = 1 << 30;
const ROLE: &str = "CRATON_TEST_ROLE";
const ADDRESS: &str = "CRATON_TEST_ADDRESS";
const MARK: &str = "@@";

pub fn serve() -> (Arc<FakeHome>, Server) {
    serve_with(ServerOptions::default())
}

pub fn serve_with(options: ServerOptions) -> (Arc<FakeHome>, Server) {
    let home = FakeHome::new(LIMIT);
    let server = Server::start(home.clone(), Address::unique(), options).expect("serves");
    (home, server)
}

pub fn connect(server: &Server) -> Client {
    Client::connect(server.address()).expect("connects")
}

/// Pseudorandom bytes, generated from `seed`.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Write a page of one buffer and seal it.
pub fn write_page(home: &dyn Home, set: SetId, bytes: &[u8]) -> Result<DataInfo> {
    let mut extents = home.allocate(set, &[bytes.len()])?;
    extents[0].as_mut_slice().expect("writable").copy_from_slice(bytes);
    let buffers = extents.iter().map(|extent| Reference::from(extent.reference())).collect();
    let spec = PageSpec { header: b"header".to_vec(), buffers, rows: 3, ..PageSpec::default() };
    home.seal(set, spec, extents)
}

pub fn set(home: &dyn Home) -> SetId {
    home.create_set(SetOptions::default()).expect("a set")
}

pub fn named(home: &dyn Home, name: &str) -> SetId {
    home.create_set(SetOptions { name: Some(name.into()), ..SetOptions::default() }).expect("a set")
}

pub fn bytes(page: &Pinned) -> &[u8] {
    page.buffers[0].as_slice()
}

/// A child process that runs this test program in a role.
pub struct Role {
    pub child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Role {
    pub fn start(role: &str, address: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "role", "--nocapture"])
            .env(ROLE, role)
            .env(ADDRESS, address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    /// The child's next message; `None` when it has ended.
    pub fn next(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.ok()?;
            if let Some((_, said)) = line.split_once(MARK) {
                return Some(said.to_owned());
            }
        }
    }

    /// Let the child continue after [`listen`].
    pub fn nod(&mut self) {
        use std::io::Write;
        self.input.as_mut().expect("open").write_all(b"\n").expect("heard");
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Wait until the child ends, which it must do successfully; returns its remaining messages.
    pub fn finish(mut self) -> Vec<String> {
        drop(self.input.take());
        let mut said = Vec::new();
        while let Some(line) = self.next() {
            said.push(line);
        }
        assert!(self.child.wait().expect("ended").success(), "the role failed; it said {said:?}");
        said
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Send a message from a role to the test.
pub fn say(what: impl std::fmt::Display) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{what}").and_then(|()| out.flush()).expect("heard");
}

/// Wait in a role until the test sends a line or closes the pipe.
pub fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("heard");
    line.trim().to_owned()
}

/// The role of this process and the server's address, if it was started as a role.
pub fn my_role() -> Option<(String, Address)> {
    let role = std::env::var(ROLE).ok()?;
    let address = std::env::var(ADDRESS).expect("comes with the role");
    Some((role, address.parse().unwrap_or(Address::Path("/".into()))))
}
