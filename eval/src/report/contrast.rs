//! What became of a base, as a piece of a page.

use maud::{Markup, html};

use crate::contrast::{Beyond, Contrast, DIFFICULTIES, NEEDS_SECOND_DRAW, Transitions};
use crate::inference::Effect;

/// What transitions from the base's first draw are.
pub const ONE_DRAW: &str = "Problems by their difficulty in one evaluation of the base and in that of the model, as papers \
count transitions: resampling noise is within, so that problems move even where the model is the base";

/// Everything that a contrast says.
pub(super) fn markup(contrast: &Contrast, name: &str) -> Markup {
    html! {
        h3 { "What became of the problems under " (name) }
        p {
            "Of " (contrast.base_solved) " problems that the base solved, " (number(contrast.kept)) " are still solved; "
            (number(contrast.newly_solved)) " others are. " (kept(contrast)) " " (sentence(&contrast.crossing.to_string())) "."
        }
        @if !contrast.matched.is_empty() { (matched(contrast)) }
        @if !contrast.strata.is_empty() { (strata(contrast)) }
        @if let Some(found) = &contrast.transitions { (transitions(found, name)) }
        (one_draw(&contrast.one_draw_transitions, name))
    }
}

/// Keep and New beside the base's own, in words; without a second draw of the base, what they need.
pub fn kept(contrast: &Contrast) -> String {
    let (Some(keep), Some(explore)) = (contrast.keep.last(), contrast.explore.last()) else {
        return format!("{NEEDS_SECOND_DRAW}.");
    };
    let said = |name: &str, of: &Beyond| {
        format!(
            "{name}@{} {:.3}, where a second draw of the base gives {:.3}: {}",
            of.k,
            of.value,
            of.null,
            effect(&of.excess)
        )
    };
    format!("{}. {}.", said("Keep", keep), said("New", explore))
}

/// A difference with its interval.
pub fn effect(effect: &Effect) -> String {
    format!("{:+.3} (95 %: {:+.3} to {:+.3})", effect.value, effect.low, effect.high)
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn number(x: f64) -> String {
    if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.1}") }
}

fn matched(contrast: &Contrast) -> Markup {
    html! {
        p.note { "Diversity at equal numbers of correct answers, on the problems where the base and every model of this page have as many: base, this, change from base." }
        div.wide { table {
            thead { tr { th { "correct answers" } th { "problems" } @for (name, ..) in &contrast.matched[0].measures { th { (name) } } } }
            tbody { @for at in &contrast.matched { tr {
                td { (at.right) } td { (at.problems) }
                @for (_, base, model, difference) in &at.measures {
                    td { span title=(effect(difference)) { (format!("{base:.2}, {model:.2}, {:+.2}", difference.value)) } }
                }
            } } }
        } }
    }
}

fn strata(contrast: &Contrast) -> Markup {
    html! {
        p.note { "By difficulty for the base, which its second draw says: Pass@k of the base's first draw, of this, change from base." }
        div.wide { table {
            thead { tr { th { "difficulty" } th { "problems" } @for (k, ..) in &contrast.strata[0].pass { th { "pass@" (k) } } } }
            tbody { @for stratum in &contrast.strata { tr {
                td { (stratum.difficulty) } td { (stratum.problems) }
                @for (_, base, model, difference) in &stratum.pass {
                    td { span title=(effect(difference)) { (format!("{base:.3}, {model:.3}, {:+.3}", difference.value)) } }
                }
            } } }
        } }
    }
}

fn transitions(found: &Transitions, name: &str) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th { "base, down; " (name) ", across" } @for to in DIFFICULTIES { th { (to) } } } }
            tbody {
                @for (from, (row, null)) in DIFFICULTIES.iter().zip(found.model.iter().zip(found.null)) {
                    tr { td { (from) } @for (count, null) in row.iter().zip(null) { td { (format!("{count:.1} ({null:.0})")) } } }
                }
            }
        } }
        p.note { "Problems, from their difficulty by the base's second draw; in parentheses where the base's first draw has them, which is resampling noise. Easy: validity .9 and more; medium: .3; hard: above 0." }
    }
}

fn one_draw(found: &[[f64; 4]; 4], name: &str) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th { "base's first draw, down; " (name) ", across" } @for to in DIFFICULTIES { th { (to) } } } }
            tbody {
                @for (from, row) in DIFFICULTIES.iter().zip(found) {
                    tr { td { (from) } @for count in row { td { (format!("{count:.1}")) } } }
                }
            }
        } }
        p.note { (ONE_DRAW) "." }
    }
}
