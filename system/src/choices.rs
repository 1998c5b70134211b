//! Options whose values are the names of a rule's choices.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use tealight_core::choices::Choices;

/// The names of all values of an option.
pub fn names<T: ValueEnum>() -> String {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ")
}

/// Parses the name of a choice; `--help` lists the names.
pub fn choice<T: Choices + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let names: Vec<&str> = T::ALL.iter().map(|(name, _)| *name).collect();
    PossibleValuesParser::new(names)
        .try_map(|name| T::named(&name).ok_or("not the name of a choice"))
}
