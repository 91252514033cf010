//! Services: writers and readers of sets, which declare the access pattern to the store so that paging can use it.
//!
//! They use only the [`Home`] interface, so they work in this process and over a socket.

pub mod hash;
mod held;
pub mod join;
mod sequential;
mod sub_pages;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

pub use sequential::{SequentialReader, SequentialWriter};
pub use sub_pages::{Shape, SubPage, SubPages, Written};

use crate::api::{Attributes, Home, Operation};
use crate::error::Result;
use crate::ids::SetId;

// The number of live readers and writers of each set in this process, by the address of the store object and the set.
static USES: LazyLock<Mutex<Uses>> = LazyLock::new(Mutex::default);

type Uses = HashMap<(usize, SetId), (u32, u32)>;

/// A use of a set by a reader or writer. The first use sets the set's current operation, and the end of the last one resets it.
struct Use {
    home: Arc<dyn Home>,
    set: SetId,
    writes: bool,
}

impl Use {
    fn begin(home: &Arc<dyn Home>, set: SetId, writes: bool, attributes: Attributes) -> Result<Self> {
        let using = Self { home: Arc::clone(home), set, writes };
        let operation = using.count(|count| *count += 1);
        home.set_attributes(set, Attributes { operation: Some(operation), ..attributes })?;
        Ok(using)
    }

    /// Change the count of uses; returns the set's resulting current operation.
    fn count(&self, change: impl FnOnce(&mut u32)) -> Operation {
        let key = (Arc::as_ptr(&self.home).cast::<()>().addr(), self.set);
        let mut uses = USES.lock();
        let counts = uses.entry(key).or_default();
        change(if self.writes { &mut counts.1 } else { &mut counts.0 });
        let operation = match counts {
            (0, 0) => Operation::None,
            (_, 0) => Operation::Read,
            (0, _) => Operation::Write,
            _ => Operation::ReadWrite,
        };
        if operation == Operation::None {
            uses.remove(&key);
        }
        operation
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let operation = self.count(|count| *count -= 1);
        // An error means that the set was dropped, and then its attributes do not matter.
        let _ = self.home.set_attributes(self.set, Attributes { operation: Some(operation), ..Attributes::default() });
    }
}
