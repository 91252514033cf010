//! A store served to other processes.
#![cfg(target_os = "linux")]

mod fake;
mod hostile;
mod processes;
mod roundtrips;
mod support;

// Not a test: other tests start this program again with this name, to run a role in another process.
#[test]
fn role() {
    if let Some((role, address)) = support::my_role() {
        if !processes::play(&role, &address) && !hostile::play(&role, &address) {
            panic!("there is no role {role}");
        }
    }
}
