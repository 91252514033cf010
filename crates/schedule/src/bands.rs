//! Bands and their shares of the work.

use crate::error::{Error, Result};
use crate::graph::Graph;

/// What tasks are assigned to, with what each can do.
#[derive(Clone, Debug)]
pub struct Bands {
    /// Each band's part of all capacities.
    shares: Vec<f64>,
}

impl Bands {
    /// Bands of capacities, in any unit.
    ///
    /// # Errors
    ///
    /// No bands, or a capacity that is not a finite number greater than 0.
    pub fn new(capacities: &[f64]) -> Result<Self> {
        if capacities.is_empty() {
            return Err(Error::NoBands);
        }
        if capacities.len() > Graph::MOST {
            return Err(Error::TooMany { what: "bands", given: capacities.len(), most: Graph::MOST });
        }
        if let Some(band) = capacities.iter().position(|capacity| !capacity.is_finite() || *capacity <= 0.0) {
            return Err(Error::Capacity { band, given: capacities[band] });
        }
        // Divided first: the sum of large capacities may be more than a number holds.
        let most = capacities.iter().copied().fold(0.0, f64::max);
        let total: f64 = capacities.iter().map(|capacity| capacity / most).sum();
        Ok(Self { shares: capacities.iter().map(|capacity| capacity / most / total).collect() })
    }

    /// How many there are: one at least.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// Each band's part of all work; their sum is 1.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }
}
