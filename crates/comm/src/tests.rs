//! Programs of several ranks, which are threads here. Python's contract suite runs them as processes.

use std::time::{Duration, Instant};

use crate::testing::{call, call_for, on_ranks, pattern, pieces};
use crate::{Array, Error, Group, Number, Op, Output, Piece, Reducer};

const SIZES: [usize; 6] = [1, 2, 3, 4, 8, 11];
/// Around the thresholds of inline values, offers, rings and parts.
const LENGTHS: [usize; 8] = [0, 1, 4 << 10, (4 << 10) + 1, (32 << 10) - 1, 32 << 10, 70_001, 3 << 20];

fn all_groups(program: impl Fn(&Group) + Send + Sync + Clone + 'static) {
    for size in SIZES {
        for tcp in [false, true] {
            if tcp && size == 8 {
                continue;
            }
            let program = program.clone();
            on_ranks(size, tcp, move |group| {
                program(&group);
                call(|control| group.barrier(control)).unwrap();
                group.close();
            });
        }
    }
}

#[test]
fn values_of_one_rank() {
    all_groups(|group| {
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let root = number % group.size();
            let bytes = pattern(root, length);
            let own = pieces(&bytes);
            let given = (group.rank() == root).then_some(own.as_slice());
            let value = call(|control| group.broadcast(given, root, control)).unwrap();
            match value {
                None => assert_eq!(group.rank(), root),
                Some(block) => assert!(block.bytes() == bytes, "broadcast of {length} bytes"),
            }
            let values: Vec<Vec<u8>> = (0..group.size()).map(|rank| pattern(rank, length + rank)).collect();
            let lists: Vec<Vec<Piece>> = values.iter().map(|value| pieces(value)).collect();
            let given = (group.rank() == root).then_some(lists.as_slice());
            let value = call(|control| group.scatter(given, root, control)).unwrap();
            assert!(value.is_none_or(|block| block.bytes() == values[group.rank()]), "scatter of {length} bytes");
            let gathered = call(|control| group.gather(&lists[group.rank()], root, control)).unwrap();
            assert_eq!(gathered.is_some(), group.rank() == root);
            for (rank, value) in gathered.into_iter().flatten().enumerate() {
                assert!(value.is_none_or(|block| block.bytes() == values[rank]), "gather of {length} bytes");
            }
        }
    });
}

#[test]
fn values_of_all_ranks() {
    all_groups(|group| {
        for length in LENGTHS {
            let rank = group.rank();
            // Some ranks' values are small while others' are large.
            let length = |from: usize, to: usize| if (from + to) % 3 == 0 { from } else { length + from * 10 + to };
            let value = |from: usize, to: usize| pattern(from * 100 + to, length(from, to));
            let own = value(rank, 0);
            let gathered = call(|control| group.allgather(&pieces(&own), control)).unwrap();
            for (other, found) in gathered.iter().enumerate() {
                assert_eq!(found.is_none(), other == rank);
                assert!(found.as_ref().is_none_or(|block| block.bytes() == value(other, 0)), "allgather");
            }
            let values: Vec<Vec<u8>> = (0..group.size()).map(|other| value(rank, other)).collect();
            let lists: Vec<Vec<Piece>> = values.iter().map(|value| pieces(value)).collect();
            let found = call(|control| group.alltoall(&lists, control)).unwrap();
            for (other, found) in found.iter().enumerate() {
                assert_eq!(found.is_none(), other == rank);
                assert!(found.as_ref().is_none_or(|block| block.bytes() == value(other, rank)), "alltoall");
            }
        }
    });
}

fn bytes_of(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Aligned memory.
fn elements(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

fn memory(values: &mut [f64]) -> Output {
    Output { start: values.as_mut_ptr().cast(), length: size_of_val(values) }
}

fn array(values: &[f64], op: Op) -> Array {
    let piece = Piece { start: values.as_ptr().cast(), length: size_of_val(values) };
    Array { piece, reducer: Reducer { number: Number::F64, op }, shape: 0 }
}

#[test]
fn reductions() {
    all_groups(|group| {
        let (rank, size) = (group.rank(), group.size());
        for count in [0, 1, 7, 2048, 2049, 4096, 4097, 100_003, 400_000] {
            let value = |rank: usize| -> Vec<f64> { (0..count).map(|i| 1.0 / (1 + rank * 3 + i) as f64).collect() };
            let own = value(rank);
            let mut expected = value(0);
            for other in 1..size {
                expected.iter_mut().zip(value(other)).for_each(|(left, right)| *left += right);
            }
            let mut found = vec![f64::NAN; count];
            let output = memory(&mut found);
            call(|control| group.allreduce(array(&own, Op::Sum), output, control)).unwrap();
            if size <= 8 || count > 4096 {
                assert!(found == expected, "allreduce of {count} numbers");
            } else {
                let close = |(left, right): (&f64, &f64)| (left - right).abs() <= 1e-12;
                assert!(found.iter().zip(&expected).all(close), "allreduce of {count} numbers in a large group");
                // All ranks have the same bits.
                let others = call(|control| group.allgather(&[Piece::of(&bytes_of(&found))], control)).unwrap();
                assert!(others.into_iter().flatten().all(|other| elements(other.bytes()) == found));
            }
            let root = count % size;
            let mut found = vec![f64::NAN; count];
            let output = (rank == root).then(|| memory(&mut found));
            call(|control| group.reduce(array(&own, Op::Sum), output, root, control)).unwrap();
            assert!(rank != root || found == expected, "reduce of {count} numbers");
            let bounds: Vec<usize> = (0..=size).map(|part| count * part * part / (size * size)).collect();
            let mut found = vec![f64::NAN; bounds[rank + 1] - bounds[rank]];
            let output = memory(&mut found);
            call(|control| group.reduce_scatter(array(&own, Op::Sum), &bounds, output, control)).unwrap();
            assert!(found == expected[bounds[rank]..bounds[rank + 1]], "reduce_scatter of {count} numbers");
        }
    });
}

#[test]
fn messages_by_tag_and_in_order() {
    all_groups(|group| {
        let (rank, size) = (group.rank(), group.size());
        let next = (rank + 1) % size;
        for (tag, length) in LENGTHS.into_iter().enumerate() {
            for number in 0..3 {
                let value = pattern(rank + number, length);
                call(|control| group.send(&pieces(&value), next, tag as u64, control)).unwrap();
            }
        }
        let before = (rank + size - 1) % size;
        for (tag, length) in LENGTHS.into_iter().enumerate().rev() {
            for number in 0..3 {
                let value = call(|control| group.receive(before, tag as u64, control)).unwrap();
                assert!(value.bytes() == pattern(before + number, length), "{length} bytes with the tag {tag}");
            }
        }
    });
}

/// Several messages on their way at once, of lengths around those that are read ahead: their borders are anywhere.
#[test]
fn messages_that_are_read_ahead() {
    for tcp in [false, true] {
        on_ranks(2, tcp, |group| {
            let (rank, other) = (group.rank(), 1 - group.rank());
            let lengths: Vec<usize> =
                (0..400).map(|at| [at, 4096 - at, 4056 + at % 80, 8192 - at * 7 % 90][at % 4]).collect();
            for round in lengths.chunks(5) {
                for &length in round {
                    call(|control| group.send(&pieces(&pattern(rank, length)), other, 0, control)).unwrap();
                }
                for &length in round {
                    let value = call(|control| group.receive(other, 0, control)).unwrap();
                    assert!(value.bytes() == pattern(other, length), "{length} bytes");
                }
            }
        });
    }
}

#[test]
fn groups_of_groups() {
    on_ranks(6, false, |group| {
        let rank = group.rank();
        let parity: Vec<usize> = (0..6).rev().filter(|other| other % 2 == rank % 2).collect();
        let half = group.subgroup(&parity, rank as u64 % 2).unwrap().unwrap();
        assert_eq!((half.rank(), half.size()), ((5 - rank) / 2, 3));
        assert!(group.subgroup(&[], 9).unwrap().is_none());
        let pair = half.subgroup(if half.rank() < 2 { &[0, 1] } else { &[] }, 5).unwrap();
        if let Some(pair) = &pair {
            let values = call(|control| pair.allgather(&[Piece::of(&[rank as u8])], control)).unwrap();
            let found: Vec<u8> = values.iter().flatten().map(|block| block.bytes()[0]).collect();
            assert_eq!(found, [if pair.rank() == 0 { rank - 2 } else { rank + 2 } as u8]);
        }
        let values = call(|control| half.allgather(&[Piece::of(&[rank as u8])], control)).unwrap();
        for (place, value) in values.iter().enumerate().filter(|(place, _)| *place != half.rank()) {
            assert_eq!(usize::from(value.as_ref().unwrap().bytes()[0]), parity[place]);
        }
        half.close();
        assert!(matches!(call(|control| half.barrier(control)), Err(Error::Closed(_))));
        call(|control| group.barrier(control)).unwrap();
    });
}

#[test]
fn a_rank_that_leaves_is_a_failure_of_those_that_need_it() {
    for tcp in [false, true] {
        let errors = on_ranks(3, tcp, |group| {
            if group.rank() == 1 {
                group.close();
                return None;
            }
            Some(call(|control| group.barrier(control)).unwrap_err())
        });
        for error in errors.into_iter().flatten() {
            assert!(matches!(&error, Error::Failed { rank: 1, .. }), "{error:?}");
        }
    }
}

#[test]
fn a_timeout_ends_the_call_on_all_ranks() {
    let started = Instant::now();
    let errors = on_ranks(4, false, |group| match group.rank() {
        0 => {
            // In no call until the others have given up.
            while !group.is_closed() {
                std::thread::sleep(Duration::from_millis(5));
            }
            call(|control| group.barrier(control)).unwrap_err()
        }
        1 => call_for(Duration::from_millis(200), |control| group.barrier(control)).unwrap_err(),
        _ => call(|control| group.barrier(control)).unwrap_err(),
    });
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(matches!(&errors[1], Error::Timeout(_)), "{errors:?}");
    assert!([0, 2, 3].into_iter().all(|rank| matches!(&errors[rank], Error::Closed(_))), "{errors:?}");
}

#[test]
fn abort_ends_the_calls_of_all_ranks() {
    // Often: a rank that has heard of it closes its communicator at once, before others have heard.
    for _ in 0..100 {
        let errors = on_ranks(3, false, |group| {
            if group.rank() == 2 {
                group.abort("enough");
            }
            let error = call(|control| group.receive(0, 0, control)).unwrap_err();
            assert!(matches!(call(|control| group.barrier(control)), Err(Error::Closed(_))));
            error
        });
        let aborted = |error: &Error| matches!(error, Error::Closed(text) if text.contains("enough"));
        assert!(errors.iter().all(aborted), "{errors:?}");
    }
}

#[test]
fn calls_that_do_not_agree() {
    let programs: [fn(&Group) -> crate::Result<()>; 3] = [
        |group| match group.rank() {
            0 => call(|control| group.barrier(control)),
            _ => call(|control| group.allgather(&[], control)).map(drop),
        },
        // Each is the root, and waits for the other: only a notice shows it.
        |group| call(|control| group.gather(&[], group.rank(), control)).map(drop),
        |group| {
            let values = vec![1.0; 10 + group.rank()];
            let mut found = values.clone();
            let output = memory(&mut found);
            call(|control| group.allreduce(array(&values, Op::Sum), output, control))
        },
    ];
    for program in programs {
        let errors = on_ranks(2, false, move |group| program(&group).unwrap_err());
        assert!(errors.iter().any(|error| matches!(error, Error::Mismatch(_))), "{errors:?}");
        assert!(errors.iter().all(|error| matches!(error, Error::Mismatch(_) | Error::Closed(_))), "{errors:?}");
    }
}

#[test]
fn interrupts_end_a_call() {
    let errors = on_ranks(2, false, |group| {
        let mut control = crate::Control { timeout: None, hook: &mut || group.rank() == 1 };
        group.receive(1 - group.rank(), 0, &mut control).unwrap_err()
    });
    assert_eq!(errors[0], Error::Interrupted);
    assert!(matches!(&errors[1], Error::Closed(text) if text.contains("interrupted")), "{errors:?}");
}
