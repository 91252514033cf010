//! Errors of invalid input, and small graphs whose assignment is known.

use craton_schedule::{Assignment, Bands, Bytes, Error, Graph, Input, Ncs, Random, RoundRobin, assign, policy};

fn refused(input: &Input<'_>) -> String {
    Graph::new(input).unwrap_err().to_string()
}

fn ncs(input: &Input<'_>, capacities: &[f64]) -> Assignment {
    assign(&Graph::new(input).unwrap(), &Bands::new(capacities).unwrap(), &Ncs).unwrap()
}

#[test]
fn wrong_graphs_are_refused_with_what_and_where() {
    let good = Input::new(3, &[0, 1], &[1, 2]);
    assert_eq!(
        refused(&Input::new(2, &[0, 1], &[1, 2])),
        "edge 1 has the consumer 2, but the 2 tasks are numbered from 0"
    );
    assert_eq!(
        refused(&Input::new(2, &[0, -1], &[1, 1])),
        "edge 1 has the producer -1, but the 2 tasks are numbered from 0"
    );
    assert_eq!(refused(&Input::new(2, &[0], &[])), "consumers has 0 items, expected 1: one for each edge's producer");
    assert_eq!(refused(&Input { bytes: Bytes::Edges(&[1, -2]), ..good }), "edge 1 has -2 bytes, expected 0 or more");
    assert_eq!(
        refused(&Input { bytes: Bytes::Outputs(&[1, 2, -3]), ..good }),
        "the output of task 2 has -3 bytes, expected 0 or more"
    );
    assert_eq!(
        refused(&Input { bytes: Bytes::Outputs(&[1]), ..good }),
        "bytes of outputs has 1 items, expected 3: one for each task"
    );
    assert!(matches!(Graph::new(&Input { bytes: Bytes::Edges(&[i64::MAX, 1]), ..good }), Err(Error::TotalBytes)));
    for cost in [f64::NAN, f64::INFINITY, -1.0] {
        let error = refused(&Input { costs: Some(&[0.0, cost, 1.0]), ..good });
        assert_eq!(error, format!("task 1 has the cost {cost}, expected a finite number that is 0 or more"));
    }
    assert!(matches!(Graph::new(&Input { costs: Some(&[f64::MAX; 3]), ..good }), Err(Error::TotalCost)));
    assert!(
        refused(&Input { preferred: Some(&[0, 1, -1]), ..good }).starts_with("task 1 has the preferred band 1, but")
    );
}

#[test]
fn cycles_are_named() {
    let cycle = |producers: &[i64], consumers: &[i64]| refused(&Input::new(30, producers, consumers));
    assert_eq!(cycle(&[5], &[5]), "the graph has a cycle of 1 tasks: 5 → 5");
    // The cycle 1 → 7 → 3 → 1 comes after 0 and before 2.
    assert_eq!(cycle(&[0, 7, 1, 3, 3], &[1, 3, 7, 1, 2]), "the graph has a cycle of 3 tasks: 1 → 7 → 3 → 1");
    let (mut from, mut to): (Vec<i64>, Vec<i64>) = ((0..20).collect(), (1..21).collect());
    from.push(20);
    to.push(0);
    assert_eq!(cycle(&from, &to), "the graph has a cycle of 21 tasks: 0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → … → 0");
}

#[test]
fn wrong_bands_and_policies_are_refused() {
    assert_eq!(Bands::new(&[]).unwrap_err().to_string(), "no bands were given; at least one is needed");
    let error = Bands::new(&[1.0, 0.0]).unwrap_err().to_string();
    assert_eq!(error, "band 1 has the capacity 0, expected a finite number greater than 0");
    let error = policy("best", 0).err().unwrap().to_string();
    assert_eq!(error, "no policy is named \"best\"; there are ncs, algorithm-1, bfs, round-robin, random");
    let graph = Graph::new(&Input { preferred: Some(&[-1, 2]), ..Input::new(2, &[], &[]) }).unwrap();
    let error = assign(&graph, &Bands::new(&[1.0; 2]).unwrap(), &Ncs).unwrap_err().to_string();
    assert_eq!(error, "task 1 has the preferred band 2, but the 2 bands are numbered from 0; -1 means none");
}

#[test]
fn a_chain_stays_in_one_band_and_a_diamond_is_spread() {
    assert_eq!(ncs(&Input::new(5, &[0, 1, 2, 3], &[1, 2, 3, 4]), &[1.0, 1.0]).bands, [0; 5]);
    let diamond = ncs(&Input::new(4, &[0, 0, 1, 2], &[1, 2, 3, 3]), &[1.0, 1.0]);
    assert_eq!(diamond.bands, [0, 0, 1, 1]);
    assert_eq!(diamond.output, [0, 1, 2, 3]);
}

#[test]
fn successors_of_one_task_are_spread_over_the_bands() {
    let found = ncs(&Input::new(9, &[0; 8], &[1, 2, 3, 4, 5, 6, 7, 8]), &[1.0, 1.0]);
    assert_eq!(found.bands, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn tasks_go_where_most_bytes_lie() {
    let input = Input {
        bytes: Bytes::Edges(&[1, 9, 9, 1]),
        preferred: Some(&[0, 1, -1, -1]),
        ..Input::new(4, &[0, 1, 0, 1], &[2, 2, 3, 3])
    };
    assert_eq!(ncs(&input, &[1.0, 1.0]).bands, [0, 1, 1, 0]);
}

#[test]
fn tasks_stay_in_the_band_of_their_preferred_input() {
    // Tiles 0 to 3 have preferred bands; each is joined with one of 4 to 7.
    let input = Input {
        preferred: Some(&[1, 0, 1, 0, -1, -1, -1, -1, -1, -1, -1, -1]),
        ..Input::new(12, &[0, 4, 1, 5, 2, 6, 3, 7], &[8, 8, 9, 9, 10, 10, 11, 11])
    };
    let found = ncs(&input, &[1.0, 1.0]);
    assert_eq!(found.bands, [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
    // All tasks prefer one band, which would be overloaded.
    let found = ncs(&Input { preferred: Some(&[1; 8]), ..Input::new(8, &[], &[]) }, &[1.0, 1.0]);
    assert_eq!(found.bands, [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn an_exchange_is_spread_with_what_is_joined_after_it() {
    // Four tiles each of two tables, four partitions of each, joined in pairs.
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for table in 0..2 {
        for partition in 0..4 {
            for tile in 0..4 {
                from.push(4 * table + tile);
                to.push(8 + 4 * table + partition);
            }
        }
    }
    for partition in 0..4 {
        from.extend([8 + partition, 12 + partition]);
        to.extend([16 + partition; 2]);
    }
    let found = ncs(&Input::new(20, &from, &to), &[1.0, 1.0]);
    assert_eq!(found.bands[8..], [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn capacities_are_shares() {
    let graph = Graph::new(&Input::new(8, &[], &[])).unwrap();
    let bands = Bands::new(&[3.0, 1.0]).unwrap();
    assert_eq!(assign(&graph, &bands, &Ncs).unwrap().bands, [0, 0, 0, 0, 0, 0, 1, 1]);
    assert_eq!(assign(&graph, &bands, &RoundRobin).unwrap().bands.iter().sum::<u32>(), 2);
    let many = Graph::new(&Input::new(10_000, &[], &[])).unwrap();
    let in_second = assign(&many, &bands, &Random { seed: 1 }).unwrap().bands.iter().sum::<u32>();
    assert!((2300..2700).contains(&in_second), "{in_second}");
}

#[test]
fn the_order_is_depth_first() {
    // Two pairs and their joins: the first join runs before the second pair is read.
    let found = ncs(&Input::new(6, &[0, 2, 1, 3], &[4, 4, 5, 5]), &[1.0]);
    assert_eq!(found.output, [0, 4, 2, 1, 5, 3]);
    assert_eq!(found.of_band(0), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn an_empty_graph_has_an_empty_assignment() {
    let found = ncs(&Input::new(0, &[], &[]), &[1.0, 1.0]);
    assert_eq!((found.bands.len(), found.starts.as_slice()), (0, [0, 0, 0].as_slice()));
}
