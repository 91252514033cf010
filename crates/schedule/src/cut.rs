//! Cuts a row of tasks into runs, one for each band, preferably between neighbours that are far apart.

/// The fraction of its share by which a band's run may be heavier or lighter than the share.
pub const SLACK: f64 = 0.1;

/// For each band, the end of its run. The first run begins at 0, every other run at the end of the one before.
///
/// The weights of the runs are proportional to `room`, as nearly as whole tasks permit. Within [`SLACK`] of that, a cut is moved to the
/// greatest distance between neighbours; of equal distances, to the nearest, then the first. If no band has room, all get equal weights.
pub fn cut(weights: &[f64], distances: &[u32], room: &[f64]) -> Vec<usize> {
    let all_room: f64 = room.iter().sum();
    let weighty = weights.iter().sum::<f64>() > 0.0;
    let mut before = Vec::with_capacity(weights.len() + 1);
    let mut total = 0.0;
    before.push(0.0);
    for weight in weights {
        total += if weighty { *weight } else { 1.0 };
        before.push(total);
    }
    #[allow(clippy::cast_precision_loss)]
    let share = |band: usize| total * if all_room > 0.0 { room[band] / all_room } else { 1.0 / room.len() as f64 };
    let mut ends = Vec::with_capacity(room.len());
    let (mut wanted, mut end) = (0.0, 0);
    for band in 0..room.len() - 1 {
        wanted += share(band);
        end = end.max(place(&before, distances, wanted, SLACK * share(band).min(share(band + 1))));
        ends.push(end);
    }
    ends.push(weights.len());
    ends
}

/// Where to cut so that about `wanted` weight is before the cut.
fn place(before: &[f64], distances: &[u32], wanted: f64, slack: f64) -> usize {
    let off = |place: usize| (before[place] - wanted).abs();
    let low = before.partition_point(|weight| *weight < wanted - slack);
    let high = before.partition_point(|weight| *weight <= wanted + slack);
    if low < high {
        // A cut at the end separates no neighbours.
        let distance = |place: usize| distances.get(place).copied().unwrap_or(u32::MAX);
        let better = |one: usize, other: usize| match distance(one).cmp(&distance(other)) {
            std::cmp::Ordering::Equal => off(one) < off(other),
            order => order.is_gt(),
        };
        return (low..high).reduce(|best, place| if better(place, best) { place } else { best }).unwrap_or(low);
    }
    // Neither neighbouring place is within the slack: the task in between goes to the side with more of its weight, the earlier one if equal.
    let above = low.min(before.len() - 1);
    let below = above.saturating_sub(1);
    if off(above) <= off(below) { above } else { below }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_room() {
        assert_eq!(cut(&[1.0; 8], &[0; 8], &[1.0, 1.0]), [4, 8]);
        assert_eq!(cut(&[1.0; 8], &[0; 8], &[3.0, 0.0, 1.0]), [6, 6, 8]);
        assert_eq!(cut(&[5.0, 1.0, 1.0, 1.0], &[0; 4], &[1.0, 1.0]), [1, 4]);
        assert_eq!(cut(&[0.0; 4], &[0; 4], &[0.0, 0.0]), [2, 4]);
        assert_eq!(cut(&[], &[], &[1.0, 1.0]), [0, 0]);
        assert_eq!(cut(&[1.0], &[0], &[0.4, 1.0]), [0, 1]);
        assert_eq!(cut(&[1.0; 3], &[0; 3], &[1.0]), [3]);
    }

    #[test]
    fn cuts_go_where_neighbours_are_far_apart() {
        let pairs: Vec<u32> = (0..40).map(|place| if place % 2 == 0 { 7 } else { 1 }).collect();
        assert_eq!(cut(&[1.0; 40], &pairs, &[1.0, 1.0]), [20, 40]);
        assert_eq!(cut(&[1.0; 38], &pairs[..38], &[1.0, 1.0]), [18, 38]);
        // The slack of a run of three tasks is less than one task, so the cut is not moved.
        assert_eq!(cut(&[1.0; 6], &pairs[..6], &[1.0, 1.0]), [3, 6]);
    }
}
