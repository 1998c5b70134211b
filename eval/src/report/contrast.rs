//! What became of a base, as a piece of a page.

use maud::{Markup, html};

use crate::contrast::{Beyond, Contrast, DIFFICULTIES};
use crate::inference::Effect;

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
        (transitions(contrast, name))
    }
}

/// Keep and Explore beyond what a second draw of the base would show, in words.
pub fn kept(contrast: &Contrast) -> String {
    let (Some(keep), Some(explore)) = (contrast.keep.last(), contrast.explore.last()) else {
        return String::new();
    };
    let said = |name: &str, of: &Beyond| {
        format!(
            "{name}@{} {:.3}, where a second draw of the base would give {:.3}: {}",
            of.k,
            of.value,
            of.null,
            effect(&of.excess)
        )
    };
    format!("{}. {}.", said("Keep", keep), said("Explore", explore))
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
        p.note { "Diversity at equal numbers of right answers, on the problems where both have as many: base, this, difference." }
        div.wide { table {
            thead { tr { th { "right answers" } th { "problems" } @for (name, ..) in &contrast.matched[0].measures { th { (name) } } } }
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
        p.note { "By difficulty for the base, chosen by one half of its samples and measured on the other: Pass@k of the base, of this, difference." }
        div.wide { table {
            thead { tr { th { "difficulty" } th { "problems" } @for (k, ..) in &contrast.strata[0].pass { th { "pass@" (k) } } } }
            tbody { @for stratum in &contrast.strata { tr {
                td { (stratum.difficulty) } td { (format!("{:.1}", stratum.problems)) }
                @for (_, base, model, difference) in &stratum.pass {
                    td { span title=(effect(difference)) { (format!("{base:.3}, {model:.3}, {:+.3}", difference.value)) } }
                }
            } } }
        } }
    }
}

fn transitions(contrast: &Contrast, name: &str) -> Markup {
    html! {
        div.wide { table {
            thead { tr { th { "base, down; " (name) ", across" } @for to in DIFFICULTIES { th { (to) } } } }
            tbody {
                @for (from, (row, null)) in DIFFICULTIES.iter().zip(contrast.transition.iter().zip(contrast.transition_null)) {
                    tr { td { (from) } @for (count, null) in row.iter().zip(null) { td { (format!("{count:.1} ({null:.1})")) } } }
                }
            }
        } }
        p.note { "Problems, each model seen by half of its samples; in parentheses what a second draw of the base gives. Easy: validity .9 and more; medium: .3; hard: above 0." }
    }
}
