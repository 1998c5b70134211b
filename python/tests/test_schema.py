"""`tealight schema` by a validator of JSON schema that is not ours."""

import json
import subprocess

import pytest
from conftest import ROOT


def schema(binary, *command):
    return json.loads(subprocess.run([binary, "schema", *command], check=True, capture_output=True).stdout)


def test_every_recipe_is_valid_and_mistakes_are_not(binary):
    validators = pytest.importorskip("jsonschema")
    tomllib = pytest.importorskip("tomllib")
    found = {name: schema(binary, *name) for name in [(), ("train",), ("study",), ("sft",)]}
    for one in found.values():
        validators.Draft7Validator.check_schema(one)
    validator = {name: validators.Draft7Validator(one) for name, one in found.items()}
    recipes = sorted((ROOT / "recipes").rglob("*.toml"))
    assert len(recipes) > 20
    for recipe in recipes:
        settings = tomllib.loads(recipe.read_text())
        kind = "sft" if recipe.stem.endswith("-base") else "study" if recipe.stem.endswith("-study") else "train"
        for name in [(), (kind,)]:
            faults = [fault.message for fault in validator[name].iter_errors(settings)]
            assert not faults, (recipe, faults)
    for text, fault in [
        ("num_generation = 4", "num_generation"), ("num_generations = 0", "minimum"), ("dtype = 'float63'", "float63"),
        ("learning-rate = 'fast'", "fast"), ("report_to = ['wandb', 'mlflow']", "mlflow"), ("dry_run = true", "dry_run"),
    ]:
        faults = " ".join(fault.message for fault in validator["train",].iter_errors(tomllib.loads(text)))
        assert fault in faults, (text, faults)
    both = 'learning-rate = 1e-5\nnum_generations = 4\nverifier = ["math", "exact"]\nreport_to = "none"\nquiet = true'
    assert validator["train",].is_valid(tomllib.loads(both))
