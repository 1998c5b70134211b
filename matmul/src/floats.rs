//! Products of f32 and bfloat16: which panels are multiplied when, and by which thread.

use std::cell::Cell;
use std::ops::Range;

use rayon::prelude::*;

use super::bfloat16::{Form, TILE};
use super::pack::{self, RowPanels};
use super::{InstructionSet, Matrix, Part, Right, SERIAL, kernel};

/// Places along k whose products are added up from zero; the sums of such stretches are added in their order. A panel's
/// stretch stays in the first-level cache.
pub(super) const STRETCH: usize = 256;
/// Most row panels that go through a stretch of a panel of columns together: their stretches of the left operand stay
/// in the second-level cache.
const MAX_ROW_PANELS: usize = 64;
/// Rows for each thread from which rows are shared out, not columns.
const ROWS_PER_THREAD: usize = 256;
/// Places along k that are worked through at a time where rows are shared out.
const DEPTH: usize = 6 * STRETCH;
/// Values of a thread's rows, which stay in its second-level cache.
const LEFT_VALUES: usize = 1 << 17;
/// Values of the columns that all threads multiply their rows with, which stay in the last cache.
const RIGHT_VALUES: usize = 1 << 21;

thread_local! {
    /// The left operand's panels of this thread's last product: fresh memory costs more than what is written to it.
    static LEFT: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
    /// The right operands' panels of this thread's last product.
    static RIGHT: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Writes or adds products whose panels are all of one form; sizes are checked.
pub(super) fn multiply(
    left: Matrix<'_>,
    form: Form,
    parts: &[Part<'_, Right<'_>>],
    parallel: bool,
) {
    let columns = Part::count(parts) * InstructionSet::in_use().tile().columns;
    if !parallel || left.rows * columns * left.columns <= SERIAL {
        share_columns(left, form, parts, 1);
    } else if left.rows >= ROWS_PER_THREAD * rayon::current_num_threads() {
        share_rows(left, form, parts);
    } else {
        share_columns(left, form, parts, rayon::current_num_threads());
    }
}

/// The left operand is packed whole, and each task has a panel of columns, of few columns with a share of the rows.
fn share_columns(left: Matrix<'_>, form: Form, parts: &[Part<'_, Right<'_>>], threads: usize) {
    let (rows, depth, count) = (left.rows, left.columns, Part::count(parts));
    let shape = form.tile();
    let is_serial = threads == 1;
    // As few panels as fit, of nearly one height: a tile of few rows costs as much to load as a full one.
    let tiles = RowPanels::new(rows, shape.rows, form.rows_together());
    let shares = if is_serial { 1 } else { (2 * threads).div_ceil(count).min(tiles.count) };
    let share = tiles.count.div_ceil(shares.max(tiles.count.div_ceil(MAX_ROW_PANELS)));
    let shares = tiles.count.div_ceil(share);
    let mut values = LEFT.take();
    let serial = is_serial || rows * depth < 1 << 14;
    let packed = pack::left(left, tiles, form, serial, &mut values);
    let panels = RowShare { values: packed, tiles, first: 0, lines: form.lines(depth), form };
    let task = |registers: &kernel::Registers, index: usize| {
        let (panel, first) = (index % count, index / count * share);
        let tiles = first..(first + share).min(tiles.count);
        let (part, panel) = Part::find(parts, panel);
        // AMX goes on where the sums in its registers ended, so that there is nothing to gain from stretches of what is
        // packed.
        let is_whole = form == Form::Tiles && matches!(part.right, Right::Packed(_));
        let stretch = if is_whole { depth } else { STRETCH };
        let mut packed = Vec::new();
        for start in (0..depth).step_by(stretch) {
            let places = start..(start + stretch).min(depth);
            let right = column_panel(part.right, panel, places.clone(), form, &mut packed);
            let panel = ColumnPanel { right, part, panel, line: form.lines(start) };
            panels.multiply(registers, tiles.clone(), panel, start > 0);
        }
    };
    if is_serial {
        let registers = kernel::Registers::for_form(form);
        (0..count * shares).for_each(|index| task(&registers, index));
    } else {
        let least = (SERIAL / 2).div_ceil(share * tiles.most() * shape.columns * depth).max(1);
        let tasks = (0..count * shares).into_par_iter().with_min_len(least);
        tasks.for_each_init(
            || kernel::Registers::for_form(form),
            |registers, index| task(registers, index),
        );
    }
    LEFT.set(values);
}

/// Each task packs some rows and multiplies them with many columns, which were packed before: neither the rows' panels
/// nor a tile of the result leave the nearest caches meanwhile.
fn share_rows(left: Matrix<'_>, form: Form, parts: &[Part<'_, Right<'_>>]) {
    let (rows, depth, count) = (left.rows, left.columns, Part::count(parts));
    let (shape, together) = (form.tile(), form.rows_together());
    let most = (LEFT_VALUES / form.lines(depth.min(DEPTH))).max(4 * shape.rows);
    let most = most.min(rows.div_ceil(4 * rayon::current_num_threads()));
    let shares = RowPanels::new(rows, most, together);
    let mut values = RIGHT.take();
    for start in (0..depth).step_by(DEPTH) {
        let places = start..(start + DEPTH).min(depth);
        let panel_values = form.lines(places.len()) * shape.columns;
        let group = (RIGHT_VALUES / panel_values).max(1);
        for first in (0..count).step_by(group) {
            let panels = first..(first + group).min(count);
            pack_group(parts, panels.clone(), places.clone(), form, &mut values);
            (0..shares.count).into_par_iter().for_each(|share| {
                let rows = shares.rows(share);
                let tiles = RowPanels::new(rows.len(), shape.rows, together);
                let registers = kernel::Registers::for_form(form);
                let mut left_values = LEFT.take();
                let part_of_left = left.part(rows.clone(), places.clone());
                let packed = pack::left(part_of_left, tiles, form, true, &mut left_values);
                let lines = form.lines(places.len());
                let left = RowShare { values: packed, tiles, first: rows.start, lines, form };
                for (index, panel) in panels.clone().enumerate() {
                    let (part, panel) = Part::find(parts, panel);
                    let right = match part.right {
                        Right::Packed(packed) => packed.panel(panel, places.clone()),
                        _ => &values[index * panel_values..][..panel_values],
                    };
                    let panel = ColumnPanel { right, part, panel, line: 0 };
                    left.multiply(&registers, 0..tiles.count, panel, start > 0);
                }
                LEFT.set(left_values);
            });
        }
    }
    RIGHT.set(values);
}

/// The places `places` along k of those of `panels` that were not packed before, side by side.
fn pack_group(
    parts: &[Part<'_, Right<'_>>],
    panels: Range<usize>,
    places: Range<usize>,
    form: Form,
    values: &mut Vec<f32>,
) {
    let width = InstructionSet::in_use().tile().columns;
    let size = form.lines(places.len()) * width;
    if parts.iter().all(|part| matches!(part.right, Right::Packed(_))) {
        return;
    }
    if values.len() < panels.len() * size {
        values.resize(panels.len() * size, 0.0);
    }
    values.par_chunks_mut(size).zip(panels).for_each(|(out, panel)| {
        let (part, panel) = Part::find(parts, panel);
        if !matches!(part.right, Right::Packed(_)) {
            pack::right(part.right, (panel * width, width), places.clone(), form, out);
        }
    });
}

/// The places `places` along k of a panel of columns, which is packed to `packed` if it was not before.
fn column_panel<'a>(
    right: Right<'a>,
    panel: usize,
    places: Range<usize>,
    form: Form,
    packed: &'a mut Vec<f32>,
) -> &'a [f32] {
    match right {
        Right::Packed(right) => right.panel(panel, places),
        right => {
            let width = InstructionSet::in_use().tile().columns;
            packed.resize(form.lines(places.len()) * width, 0.0);
            pack::right(right, (panel * width, width), places, form, packed);
            packed
        }
    }
}

/// A panel of columns, or some places along k of it.
struct ColumnPanel<'a> {
    right: &'a [f32],
    part: &'a Part<'a, Right<'a>>,
    /// Which panel of the part.
    panel: usize,
    /// The line of the left operand's panels that its first line is multiplied with.
    line: usize,
}

/// Rows of a left operand in panels.
struct RowShare<'a> {
    /// Panel after panel, each `[lines][rows]`, or tiles of AMX.
    values: &'a [f32],
    tiles: RowPanels,
    /// The first row's place in the result.
    first: usize,
    lines: usize,
    form: Form,
}

impl RowShare<'_> {
    /// Multiplies some of the row panels with a panel of columns, and writes the products or, with `adds` or where the
    /// part asks for that, adds them. Sums of stretches are added in their order, or those of AMX go on: the result's
    /// bits depend on k alone.
    fn multiply(
        &self,
        registers: &kernel::Registers,
        tiles: Range<usize>,
        panel: ColumnPanel<'_>,
        adds: bool,
    ) {
        let ColumnPanel { right, part, panel, line } = panel;
        let set = InstructionSet::in_use();
        let (width, form) = (set.tile().columns, self.form);
        let stretch = form.lines(STRETCH);
        for tile in tiles {
            let rows = self.tiles.rows(tile);
            let height = rows.len();
            if form == Form::Tiles {
                let places = line * TILE..(line + right.len() / width) * TILE;
                let each = self.values[rows.start * self.lines..].chunks(self.lines * TILE);
                let left = each.take(height.div_ceil(TILE)).map(|rows| &rows[places.clone()]);
                let at = [self.first + rows.start, panel * width];
                kernel::tiles(registers, left, right, height, part.adds || adds, at, &part.target);
                continue;
            }
            let left = &self.values[rows.start * self.lines..rows.end * self.lines];
            let left = &left[line * height..line * height + right.len() / width * height];
            let at = [self.first + rows.start, panel * width];
            let stretches = left.chunks(stretch * height).zip(right.chunks(stretch * width));
            for (index, (left, right)) in stretches.enumerate() {
                let panels = kernel::Panels { left, right, height, form };
                kernel::tile(set, panels, part.adds || adds || index > 0, at, &part.target);
            }
        }
    }
}
