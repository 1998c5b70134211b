"""Hugging Face's own client against the tests' Hub: `hub_official.rs` runs each part of it with an empty or a shared cache."""

import hashlib
import json
import os
import sys
from pathlib import Path

import huggingface_hub.constants
from huggingface_hub import HfApi, hf_hub_download, scan_cache_dir, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

# A transfer is taken up at the last block that came whole.
huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE = 1 << 16

part, expected = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
api = HfApi()


def hashes(folder):
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in Path(folder).rglob("*")
        if file.is_file()
    }


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def questions():
    info = api.model_info("team/model", files_metadata=False)
    assert info.sha == expected["commit"], info
    names = sorted(file.rfilename for file in info.siblings)
    assert names == sorted(expected["files"]), names
    assert sorted(api.list_repo_files("team/model")) == names
    for entry in api.get_paths_info("team/model", names):
        assert entry.size == expected["sizes"][entry.path], entry
        if entry.lfs is not None:
            assert entry.lfs.sha256 == expected["files"][entry.path], entry
    assert api.dataset_info("team/data").sha == expected["commit"]
    refused(RepositoryNotFoundError, lambda: api.model_info("team/nothing"))
    refused(RevisionNotFoundError, lambda: api.model_info("team/model", revision="v9"))
    refused(EntryNotFoundError, lambda: hf_hub_download("team/model", "nothing.json"))
    refused(GatedRepoError, lambda: hf_hub_download("team/gated", "config.json"))
    hf_hub_download("team/gated", "config.json", token=expected["token"])


def downloads():
    folder = snapshot_download("team/model")
    assert hashes(folder) == expected["files"], folder
    assert Path(folder).name == expected["commit"]
    # The server breaks the first transfer off; the client asks for the rest.
    hf_hub_download("old/name", "model.safetensors")
    snapshot_download("team/data", repo_type="dataset")


def reads():
    """The cache that Tealight left, without the network."""
    folder = snapshot_download("team/model", local_files_only=True)
    there = hashes(folder)
    assert there and all(expected["files"][name] == value for name, value in there.items()), there
    report = scan_cache_dir(os.environ["HF_HUB_CACHE"])
    assert not report.warnings, report.warnings
    assert [repo.repo_id for repo in report.repos] == ["team/model"], report


def continues():
    """The same with the network: what is there is not fetched again."""
    for name in expected["tealight"]:
        hf_hub_download("team/model", name)


{"questions": questions, "downloads": downloads, "reads": reads, "continues": continues}[part]()
