//! Steps on a device, or with kernels as C in its place: which become graphs, and that they compute what their launches
//! do.

use std::cell::Cell;

use super::*;
use crate::kernels::{self, Gain};
use crate::products;
use crate::workspace::Destination;
use candle_core::Tensor;

/// Tests that turn graphs off, or need them on, for all threads.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    IS_OFF.store(false, Ordering::Relaxed);
    alone
}

fn device() -> Device {
    #[cfg(feature = "cuda")]
    return crate::open_cuda(0).expect("a GPU");
    #[cfg(not(feature = "cuda"))]
    Device::Cpu
}

fn matrix(values: impl Iterator<Item = usize>, shape: (usize, usize)) -> Tensor {
    let values: Vec<f32> = values.map(|at| (at as f32 * 0.7).sin()).collect();
    Tensor::from_vec(values, shape, &device()).expect("a matrix")
}

fn of_all(x: &Tensor) -> Vec<f32> {
    x.flatten_all().and_then(|x| x.to_vec1()).expect("values")
}

/// A step of four kinds of launches: it adds to a cache what comes of `x`, and reads the cache.
struct Step {
    /// Steps that follow, as it says.
    more: usize,
    workspace: Arc<Workspace>,
    weight: Tensor,
    gain: Tensor,
    cache: Tensor,
}

impl Step {
    fn new(rows: usize) -> Self {
        Self {
            more: 8,
            workspace: Workspace::new(&device(), rows).expect("a workspace"),
            weight: matrix(0..16, (4, 4)),
            gain: matrix(3..7, (1, 4)).flatten_all().expect("a row"),
            cache: Tensor::zeros((8, 4), DType::F32, &device()).expect("a cache"),
        }
    }

    fn of_cache(&self) -> Vec<f32> {
        of_all(&self.cache)
    }

    /// The step with this index, whose rows go to others of the cache; `more` is done inside it.
    fn run(&self, at: usize, rows: usize, more: &dyn Fn(&Array)) -> Vec<f32> {
        self.workspace.begin(rows);
        let device = device();
        let to = Destination { device: &device, workspace: Some(&self.workspace) };
        let x: Vec<f32> = (0..rows * 4).map(|value| ((value + at) as f32).cos()).collect();
        let x = to.upload(x, (rows, 4)).expect("x");
        let places: Vec<u32> = (0..rows).map(|row| ((at + 3 * row) % 8) as u32).collect();
        let places = to.upload(places, rows).expect("places");
        let work = || {
            let gain = Gain { weight: &self.gain, offset: 0.0, eps: 1e-5 };
            let normed = kernels::add_norm(&x, None, gain)?.1;
            let product = products::product(&normed, &self.weight)?;
            more(&product);
            kernels::store_rows(&product, &self.cache, &places)?;
            let read = kernels::pick_rows(&self.cache, &places, 1.0, to)?;
            kernels::add(&read, &normed)?;
            Ok(read)
        };
        let done = self.workspace.repeated(self.more, &work).expect("a step");
        done.download().expect("values")
    }

    /// The values of steps of so many rows, and what they asked a device for.
    fn all(&self, rows: &[usize]) -> (Vec<Vec<f32>>, counts::Counts) {
        let each = |(at, rows): (usize, &usize)| self.run(at, *rows, &|_| {});
        counts::counted(|| rows.iter().enumerate().map(each).collect())
    }
}

/// The same steps without graphs.
fn direct(rows: &[usize]) -> (Vec<Vec<f32>>, Vec<f32>) {
    turn_off();
    let step = Step::new(2);
    let values = step.all(rows).0;
    IS_OFF.store(false, Ordering::Relaxed);
    (values, step.of_cache())
}

#[test]
fn equal_steps_become_a_graph_with_equal_values() {
    let _alone = alone();
    let rows = [2; 6];
    let (expected, cache) = direct(&rows);
    let step = Step::new(2);
    let (values, counts) = step.all(&rows);
    assert_eq!(values, expected);
    assert_eq!(step.of_cache(), cache);
    // The first step is noted. The second is launched to prepare for a graph, is a graph, and is launched to be
    // compared with it. Four are the graph.
    assert_eq!((counts.graphs_made, counts.graphs), (1, 5));
    assert_eq!((counts.launches["add_norm_f32"], counts.replayed["add_norm_f32"]), (3, 5));
    assert_eq!((counts.launches["candle"], counts.replayed["candle"]), (3, 5));
    assert_eq!(take_notice(), None);
}

#[test]
fn a_step_that_differs_is_launched_by_itself() {
    let _alone = alone();
    let rows = [2, 2, 2, 1, 1, 1, 1, 2, 2];
    let (expected, _) = direct(&rows);
    let (values, counts) = Step::new(2).all(&rows);
    assert_eq!(values, expected);
    // Of each number of rows the first is noted and the second becomes a graph.
    assert_eq!((counts.graphs_made, counts.graphs), (3, 2 + 3 + 1));
}

#[test]
fn moved_memory_makes_a_new_graph() {
    let _alone = alone();
    let mut step = Step::new(2);
    let (mut values, mut old) = (Vec::new(), None);
    let ((), counts) = counts::counted(|| {
        for at in 0..6 {
            if at == 3 {
                let moved = step.cache.copy().expect("a copy");
                old = Some((std::mem::replace(&mut step.cache, moved), step.of_cache()));
            }
            values.push(step.run(at, 2, &|_| {}));
        }
    });
    let (expected, cache) = direct(&[2; 6]);
    assert_eq!((values, step.of_cache()), (expected, cache));
    assert_eq!((counts.graphs_made, counts.graphs), (2, 2 + 2));
    let (old, before) = old.expect("it was moved");
    assert_eq!(of_all(&old), before, "nothing is written where the cache was");
}

#[test]
fn a_graph_is_made_where_it_will_be_launched_often_enough() {
    let _alone = alone();
    let made = |more: usize, steps: usize| {
        let mut step = Step::new(2);
        step.more = more;
        step.all(&vec![2; steps]).1.graphs_made
    };
    assert_eq!([made(2, 3), made(3, 2)], [0, 1]);
    // Steps that were the same for long go on to be the same.
    assert_eq!([made(0, 3), made(0, 4)], [0, 1]);
}

#[test]
fn a_step_with_more_than_launches_is_never_a_graph() {
    let _alone = alone();
    let (expected, _) = direct(&[2; 4]);
    let more: [&dyn Fn(&Array); 3] = [
        // An operation of Candle, a copy to the host, and one from there.
        &|x| drop(x.zeros_like().expect("zeros")),
        &|x| drop(x.download::<f32>().expect("values")),
        &|x| drop(Destination::like(x).upload(vec![1f32], 1).expect("one")),
    ];
    for more in more {
        let step = Step::new(2);
        let steps = || (0..4).map(|at| step.run(at, 2, more)).collect::<Vec<_>>();
        let (values, counts) = counts::counted(steps);
        assert_eq!((values, counts.graphs), (expected.clone(), 0));
    }
    // One that does so later is launched from there on.
    let (step, is_late) = (Step::new(2), Cell::new(false));
    let more = |x: &Array| {
        if is_late.get() {
            drop(x.zeros_like().expect("zeros"));
        }
    };
    let (values, counts) = counts::counted(|| {
        let mut values = vec![step.run(0, 2, &more), step.run(1, 2, &more)];
        is_late.set(true);
        values.extend([step.run(2, 2, &more), step.run(3, 2, &more)]);
        values
    });
    assert_eq!((values, counts.graphs), (expected, 1));
}

#[test]
fn steps_after_an_error_are_unchanged() {
    let _alone = alone();
    let step = Step::new(2);
    let mut values = vec![step.run(0, 2, &|_| {}), step.run(1, 2, &|_| {})];
    assert!(step.workspace.repeated(8, &|| bail!("no memory")).is_err());
    values.extend([step.run(2, 2, &|_| {}), step.run(3, 2, &|_| {})]);
    assert_eq!(values, direct(&[2; 4]).0);
}
