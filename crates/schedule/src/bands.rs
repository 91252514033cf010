//! Bands and their shares of the work.

use crate::error::{Error, Result};
use crate::graph::Graph;

/// The bands that tasks are assigned to, with their capacities.
#[derive(Clone, Debug)]
pub struct Bands {
    /// Each band's fraction of the total capacity.
    shares: Vec<f64>,
}

impl Bands {
    /// Bands of these capacities, in any unit.
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
        // Divide before adding, because the sum of large capacities may overflow.
        let most = capacities.iter().copied().fold(0.0, f64::max);
        let total: f64 = capacities.iter().map(|capacity| capacity / most).sum();
        Ok(Self { shares: capacities.iter().map(|capacity| capacity / most / total).collect() })
    }

    /// The number of bands, at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// Each band's fraction of all work; they sum to 1.
    #[must_use]
    pub fn shares(&self) -> &[f64] {
        &self.shares
    }
}
