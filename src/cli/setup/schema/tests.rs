//! The schema against the recipes, and against what the commands take.

use super::*;
use crate::cli::setup::recipes::RECIPES;

/// Whether a value is what a property of our schemas says: the words of JSON schema that they use.
fn fits(value: &Value, property: &Value) -> bool {
    if let Some(kinds) = property["anyOf"].as_array() {
        return kinds.iter().any(|kind| fits(value, kind));
    }
    let number = value.as_f64();
    let bound = |key: &str, holds: fn(f64, f64) -> bool| match (property[key].as_f64(), number) {
        (Some(bound), Some(number)) => holds(number, bound),
        _ => true,
    };
    let is_kind = match property["type"].as_str() {
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value
            .as_array()
            .is_some_and(|items| items.iter().all(|item| fits(item, &property["items"]))),
        other => panic!("type {other:?}"),
    };
    is_kind
        && property["enum"].as_array().is_none_or(|values| values.contains(value))
        && bound("minimum", |number, bound| number >= bound)
        && bound("exclusiveMinimum", |number, bound| number > bound)
        && bound("maximum", |number, bound| number <= bound)
        && bound("exclusiveMaximum", |number, bound| number < bound)
}

/// The property that a key of a file stands for.
fn property_of<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    schema["properties"].get(key).or_else(|| {
        let reference = schema["patternProperties"].get(format!("^{key}$"))?["$ref"].as_str()?;
        schema["properties"].get(reference.strip_prefix("#/properties/")?)
    })
}

/// The mistakes in a settings file.
fn faults(schema: &Value, text: &str) -> Vec<String> {
    let file: Value = toml::from_str(text).expect("TOML");
    let fields = file.as_object().expect("a table");
    let fault = |(key, value): (&String, &Value)| match property_of(schema, key) {
        None => Some(format!("unknown key {key}")),
        Some(property) => (!fits(value, property)).then(|| format!("{key} = {value}: {property}")),
    };
    fields.iter().filter_map(fault).collect()
}

#[test]
fn every_recipe_fits_the_schema_of_its_command_and_of_all() {
    for recipe in &RECIPES {
        let own = of_command(recipe.command()).expect("a command");
        for schema in [own, of_all()] {
            let faults = faults(&schema, recipe.text);
            assert!(faults.is_empty(), "{}: {faults:?}", recipe.name);
        }
    }
    let train = of_command("train").expect("a command");
    for (text, fault) in [
        ("num_generation = 4", "unknown key"),
        ("dry_run = true", "unknown key"),
        ("config = \"a\"", "unknown key"),
        ("num_generations = 0", "num_generations = 0"),
        ("num_generations = 2.5", "num_generations = 2.5"),
        ("num-generations = \"two\"", "num-generations"),
        ("learning_rate = 0.0", "learning_rate"),
        ("dtype = \"float63\"", "dtype"),
        ("verifier = [1]", "verifier"),
        ("correct_threshold = 1.5", "correct_threshold"),
    ] {
        let errors = faults(&train, text);
        assert!(errors.iter().any(|one| one.contains(fault)), "{text}: {errors:?}");
    }
    let both = "model_name_or_path = \"a\"\nlearning-rate = 1e-5\nverifier = [\"math\", \"exact\"]\nquiet = true";
    assert_eq!(faults(&train, both), Vec::<String>::new());
}

/// A value that a property of numbers, booleans or names allows; none of a free text.
fn sample(property: &Value) -> Option<Value> {
    if let Some(default) = property.get("default") {
        return Some(default.clone());
    }
    if let Some(kinds) = property["anyOf"].as_array() {
        return kinds.iter().find_map(sample);
    }
    match property["type"].as_str() {
        Some("boolean") => Some(json!(false)),
        Some("string") => property["enum"].get(0).cloned(),
        Some("array") => sample(&property["items"]).map(|item| json!([item])),
        _ => {
            let numbers = [json!(1), json!(0), json!(0.5)];
            numbers.into_iter().find(|number| fits(number, property))
        }
    }
}

#[test]
fn commands_take_what_the_schema_allows_and_know_no_further_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.toml");
    let error_for = |command: &str, key: &str, value: &Value| -> String {
        let table = json!({ key: value });
        std::fs::write(&file, toml::to_string(&table).expect("TOML")).expect("written");
        let path = file.display().to_string();
        let words = ["tealight", command, "--config", &path].map(str::to_owned);
        crate::cli::check(&words).map_or_else(|error| format!("{error:#}"), |()| String::new())
    };
    let mut tried = 0;
    for name in commands::names() {
        let entry = commands::entry(name).expect("a command");
        let schema = of_command(name).expect("a schema");
        let properties = schema["properties"].as_object().expect("properties");
        for (key, property) in properties {
            let value = sample(property).unwrap_or(json!("x"));
            let message = error_for(name, key, &value);
            assert!(!message.contains("unknown key"), "{name}: {key}: {message}");
            if sample(property).is_some() {
                let is_wrong = message.contains("wrong kind") || message.contains("must be");
                assert!(!is_wrong, "{name}: {key} = {value}: {message}");
                tried += 1;
            }
        }
        for option in entry.plain().get_arguments() {
            let id = option.get_id().as_str();
            if !properties.contains_key(id) && !option.is_hide_set() {
                let message = error_for(name, id, &json!(true));
                let is_refused = message.contains("unknown key");
                assert!(is_refused, "{name}: {id} is an option of files: {message}");
            }
        }
    }
    assert!(tried > 200, "{tried}");
}
