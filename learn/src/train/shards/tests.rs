//! Shards of small weights, on ranks that are threads.

use std::path::Path;

use super::super::adamw::{AdamW, AdamWConfig};
use super::super::moments::SavedMoments;
use super::super::shared::sum_gradients;
use super::*;
use tealight_system::ranks::threads;

#[test]
fn shards_are_whole_blocks_in_order_and_about_equal() {
    let counts = [("a", 5), ("b", 3 * BLOCK + 1), ("c", 0), ("d", 40 * BLOCK), ("e", 17)];
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    for ranks in [1, 2, 3, 7, 100] {
        let shards = split(&counts, ranks);
        assert_eq!(shards.len(), ranks);
        let mut next = BTreeMap::new();
        for piece in shards.iter().flatten() {
            let start = next.insert(piece.name.clone(), piece.range.end).unwrap_or(0);
            assert_eq!(piece.range.start, start, "one piece goes on where the last ended");
            assert!(start.is_multiple_of(BLOCK), "{piece:?}");
        }
        let names: Vec<_> = shards.iter().flatten().map(|piece| &piece.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for (name, count) in counts.iter().filter(|(_, count)| *count > 0) {
            assert_eq!(next[*name], *count, "all of `{name}`");
        }
        for (rank, shard) in shards.iter().enumerate() {
            let held: usize = shard.iter().map(|piece| piece.range.len()).sum();
            let apart = held.abs_diff(total / ranks);
            assert!(apart <= BLOCK, "rank {rank} of {ranks}: {held} of {total}");
        }
    }
    assert_eq!(split(&[], 2), [vec![], vec![]]);
    let small = split(&[("a", 9)], 2);
    assert_eq!((small[0].len(), small[1].len()), (1, 0), "a block is not divided");
}

#[test]
fn a_span_of_pieces_is_found_in_its_weights() {
    let piece = |name: &str, range| Piece { name: name.to_owned(), range };
    let pieces = [piece("a", 10..14), piece("c", 0..3), piece("d", 0..9)];
    let pieces: Vec<&Piece> = pieces.iter().collect();
    assert_eq!(within(&pieces, &(2..6)), [("a", 12..14, 0..2), ("c", 0..2, 2..4)]);
    assert_eq!(within(&pieces, &(7..20)), [("d", 0..9, 0..9)]);
    assert!(within(&pieces, &(16..20)).is_empty());
}

const CONFIG: AdamWConfig = AdamWConfig { weight_decay: 0.1, ..AdamWConfig::DEFAULT };
/// Elements of the weights below.
const COUNTS: [(&str, usize); 4] = [("a", 2 * 5000), ("b", 7), ("c", 3 * 4100), ("d", 9000)];

/// The result of each of so many ranks.
fn on_each<T: Send>(size: usize, work: impl Fn(&Ranks) -> T + Sync) -> Vec<T> {
    let (ranks, work) = (threads(size), &work);
    std::thread::scope(|scope| {
        let all: Vec<_> = ranks.iter().map(|ranks| scope.spawn(move || work(ranks))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

/// Numbers without an order, as many as a weight has.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 * 0.37 - 370.0).collect()
}

fn weights() -> BTreeMap<String, Var> {
    let one = |(name, count): &(&str, usize)| {
        let shape = if *count == 7 { vec![7] } else { vec![2, count / 2] };
        let weight = Tensor::from_vec(values(*count, 1), shape, &candle_core::Device::Cpu);
        ((*name).to_owned(), Var::from_tensor(&weight.unwrap()).unwrap())
    };
    COUNTS.iter().map(one).collect()
}

/// The gradient of a step on one rank: on the first alone, so that sums over ranks are exact, and of `b` in no second
/// step.
fn gradient(ranks: &Ranks, step: usize) -> GradAccumulator {
    let all: Vec<(&str, Vec<f32>)> =
        COUNTS.iter().map(|(name, count)| (*name, values(*count, 2 + step))).collect();
    let given = all.iter().filter(|(name, _)| step != 1 || *name != "b");
    let given: Vec<(&str, &[f32])> = given.map(|(name, values)| (*name, &values[..])).collect();
    GradAccumulator::from_values(if ranks.is_first() { &given } else { &[] })
}

fn take(
    optimizer: &mut AdamW,
    weights: &BTreeMap<String, Var>,
    (ranks, mut gradient): (&Ranks, GradAccumulator),
) -> f64 {
    sum_gradients(&mut gradient, weights, (ranks, None), optimizer.shards()).expect("sums");
    optimizer.update(weights, &gradient, 0.01).expect("a step").grad_norm
}

fn bits(weights: &BTreeMap<String, Var>) -> Vec<u32> {
    let flat = |var: &Var| var.flatten_all().and_then(|x| x.to_vec1::<f32>()).expect("f32");
    weights.values().flat_map(flat).map(f32::to_bits).collect()
}

/// Numbers that an optimizer keeps in memory, whatever of them its tensors show.
fn in_memory(optimizer: &AdamW) -> usize {
    let count = |moment: &Tensor| match &*moment.storage_and_layout().0 {
        candle_core::Storage::Cpu(storage) => storage.as_slice::<f32>().expect("f32").len(),
        _ => unreachable!("on the CPU"),
    };
    optimizer.moments().map(count).sum()
}

/// The whole state of an optimizer, on the first rank.
fn state(optimizer: &AdamW) -> Vec<Vec<u8>> {
    optimizer.saved().map(|(kind, name, _)| optimizer.gather(kind, name).expect("bytes")).collect()
}

#[test]
fn sharded_steps_have_the_bits_of_one_process_and_a_rank_has_its_part_of_the_moments() {
    let of = |ranks: &Ranks, sharded: bool| {
        let among = if sharded { ranks.clone() } else { Ranks::alone() };
        let weights = weights();
        let mut optimizer = AdamW::sharded(CONFIG, &weights, &among).expect("memory");
        let norms: Vec<u64> = (0..3)
            .map(|step| take(&mut optimizer, &weights, (ranks, gradient(ranks, step))).to_bits())
            .collect();
        (bits(&weights), norms, state(&optimizer), in_memory(&optimizer))
    };
    let alone = of(&Ranks::alone(), false);
    assert!(f64::from_bits(alone.1[0]) > 1.0, "gradients are clipped, so that the norm matters");
    assert_ne!(alone.0, bits(&weights()));
    let total: usize = COUNTS.iter().map(|(_, count)| count).sum();
    assert_eq!(alone.3, 2 * total);
    for size in [2, 3, 5] {
        let found = on_each(size, |ranks| of(ranks, true));
        assert!(found.iter().all(|rank| rank.0 == alone.0), "{size} ranks: other weights");
        assert!(found.iter().all(|rank| rank.1 == alone.1), "{size} ranks: other norms");
        assert!(found[0].2 == alone.2, "{size} ranks: another state");
        assert!(found[1].2.iter().all(Vec::is_empty), "the first alone has the whole state");
        let held: Vec<usize> = found.iter().map(|rank| rank.3).collect();
        assert_eq!(held.iter().sum::<usize>(), 2 * total);
        assert!(held.iter().all(|held| held.abs_diff(2 * total / size) <= 2 * BLOCK), "{held:?}");
        let whole = on_each(size, |ranks| of(ranks, false));
        assert!(whole.iter().all(|rank| rank.0 == alone.0 && rank.3 == 2 * total));
    }
}

#[test]
fn sums_of_gradients_are_rounded_as_where_nothing_is_sharded() {
    let of = |sharded: bool| {
        on_each(3, |ranks| {
            let among = if sharded { ranks.clone() } else { Ranks::alone() };
            let weights = weights();
            let mut optimizer = AdamW::sharded(CONFIG, &weights, &among).expect("memory");
            let own: Vec<(&str, Vec<f32>)> =
                COUNTS.iter().map(|(name, count)| (*name, values(*count, ranks.rank()))).collect();
            let own: Vec<(&str, &[f32])> = own.iter().map(|(name, x)| (*name, &x[..])).collect();
            // The last rank has a gradient of some weights alone.
            let own =
                GradAccumulator::from_values(if ranks.rank() == 2 { &own[1..3] } else { &own });
            take(&mut optimizer, &weights, (ranks, own));
            bits(&weights)
        })
    };
    assert!(of(true) == of(false));
}

#[test]
fn a_gradient_that_is_not_finite_on_one_rank_changes_nothing_on_any() {
    let changed = on_each(3, |ranks| {
        let weights = weights();
        let mut optimizer = AdamW::sharded(CONFIG, &weights, ranks).expect("memory");
        let mut last = values(9000, 3);
        last[8999] = f32::NAN;
        let own = GradAccumulator::from_values(&[("d", &last)]);
        let norm = take(&mut optimizer, &weights, (ranks, own));
        (norm.is_nan(), bits(&weights))
    });
    let before = bits(&weights());
    assert!(changed.iter().all(|(is_nan, after)| *is_nan && *after == before));
}

#[test]
fn moments_are_saved_whole_and_restored_by_any_number_of_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let step = |ranks: &Ranks, from: Option<&Path>, to: Option<&Path>| {
        let weights = weights();
        let mut optimizer = AdamW::sharded(CONFIG, &weights, ranks).expect("memory");
        if let Some(from) = from {
            optimizer.restore(1, from).expect("the state");
            assert_eq!(in_memory(&optimizer), optimizer.held());
        }
        let before = state(&optimizer);
        take(&mut optimizer, &weights, (ranks, gradient(ranks, 0)));
        if let Some(to) = to {
            let moments = SavedMoments::new(&optimizer);
            if ranks.is_first() {
                // One that cannot be written does not keep the others waiting.
                assert!(moments.write(&to.join("no-folder/moments")).is_err());
            }
            moments.finish().expect("gathered");
            let moments = SavedMoments::new(&optimizer);
            if ranks.is_first() {
                moments.write(&to.join("moments")).expect("written");
            }
            moments.finish().expect("gathered");
        }
        (before, state(&optimizer), bits(&weights))
    };
    let saved = |size: usize| {
        let to = folder.path().join(size.to_string());
        std::fs::create_dir(&to).expect("made");
        on_each(size, |ranks| step(ranks, None, Some(&to))).swap_remove(0).1
    };
    let state = saved(2);
    assert!(saved(1) == state && saved(3) == state);
    let file = |size: usize| folder.path().join(format!("{size}/moments"));
    let bytes = |size: usize| std::fs::read(file(size)).expect("a file");
    assert!(bytes(1) == bytes(2) && bytes(1) == bytes(3), "files do not know who wrote them");
    let alone = step(&Ranks::alone(), Some(&file(2)), None);
    assert!(alone.0 == state, "what was saved is what is restored");
    for size in [2, 3] {
        let found = on_each(size, |ranks| step(ranks, Some(&file(1)), None));
        assert!(found[0].0 == state && found[0].1 == alone.1);
        assert!(found.iter().all(|rank| rank.2 == alone.2));
    }
    // A weight of another shape has no state there.
    let weight = Tensor::zeros((2, 4999), candle_core::DType::F32, &candle_core::Device::Cpu);
    let other = BTreeMap::from([("a".to_owned(), Var::from_tensor(&weight.unwrap()).unwrap())]);
    let mut optimizer = AdamW::new(CONFIG, &other).expect("memory");
    let error = optimizer.restore(1, &file(2)).expect_err("another model's").to_string();
    assert!(error.contains("no fitting `exp_avg.a`"), "{error}");
}
