//! The samples in an `.eval` log of Inspect's: a zip archive with one JSON document for each sample. Names in the
//! archive select members and are shown; they are never paths.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::time::Duration;

use serde_json::{Map, Value};
use tealight_core::display::shortened;
use tealight_core::guard;
use tealight_core::lines::MAX_LINE;
use tealight_datasets::{json, unpack};
use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};
use zip::result::ZipError;

/// Most memory and time for the list of members, whose length an archive may claim to be any.
const MAX_MEMORY: u64 = 2 << 30;
const MAX_TIME: Duration = Duration::from_secs(60);

/// The samples of an archive, in the order of its list.
pub(super) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    /// The samples' numbers in the list.
    members: std::vec::IntoIter<usize>,
    packed: u64,
    unpacked: u64,
    /// What is to be said of a run that did not end.
    pub(super) unfinished: Option<String>,
}

/// What the header of an Inspect log says of a run that did not end: of one that ended, or of another document,
/// nothing.
pub(super) fn unfinished(header: &Map<String, Value>, samples: usize) -> Option<String> {
    let status = header.get("status").filter(|_| header.contains_key("eval"))?.as_str()?;
    let eval = &header["eval"];
    let epochs = eval["config"]["epochs"].as_u64().unwrap_or(1);
    let planned = eval["dataset"]["sample_ids"].as_array().map(|ids| ids.len() as u64 * epochs);
    let planned = planned.map_or(String::new(), |planned| format!(" of {planned} planned"));
    let why = header.get("error").and_then(|error| error["message"].as_str());
    let why = why.map_or(String::new(), |why| format!(" ({})", shortened(why, 200)));
    (status != "success").then(|| {
        format!(
            "the Inspect log has the status `{}`{why}: its run did not end, and the log has {samples}{planned} samples",
            status.escape_debug()
        )
    })
}

fn broken(why: impl Into<ZipError>) -> io::Error {
    io::Error::other(format!("a zip archive that cannot be read: {}", why.into()))
}

impl Archive {
    /// Reads the list of members. Of two with one name the later one counts: a sample that was written again.
    pub(super) fn open(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let read = move || ZipArchive::with_config(config, BufReader::new(file));
        let zip = guard::guarded("its list of members", MAX_MEMORY, MAX_TIME, read);
        let zip = zip.map_err(io::Error::other)?.map_err(broken)?;
        let (mut members, mut total, mut header) = (Vec::new(), 0_u64, None);
        for index in 0..zip.len() {
            let member = zip.by_index_data(index).map_err(broken)?;
            total = total.saturating_add(member.compressed_size());
            let name = member.name_raw();
            if name.starts_with(b"samples/") && name.ends_with(b".json") {
                members.push(index);
            }
            // A run that was killed has the second alone.
            if name == b"header.json" || name == b"_journal/start.json" && header.is_none() {
                header = Some(index);
            }
        }
        if total > size {
            return Err(io::Error::other("a zip archive whose members overlap"));
        }
        let samples = members.len();
        let members = members.into_iter();
        let mut archive = Self { zip, members, packed: 0, unpacked: 0, unfinished: None };
        if let Some(index) = header {
            let bytes = archive.unpack(index)?;
            let header = str::from_utf8(&bytes).ok().and_then(|text| json::parse(text).ok());
            let mut header = header.and_then(|header: Value| header.as_object().cloned());
            if let Some(header) = &mut header {
                header.entry("status").or_insert_with(|| "started".into());
            }
            archive.unfinished = header.and_then(|header| unfinished(&header, samples));
        }
        match (samples, &archive.unfinished) {
            (0, Some(why)) => Err(io::Error::other(why.clone())),
            (0, None) => Err(io::Error::other(
                "a zip archive without `samples/*.json`: of archives only Inspect's .eval logs are read (of a workbook of \
                 Excel, an .xlsx file, give its sheet as CSV)",
            )),
            _ => Ok(archive),
        }
    }

    /// The name and the bytes of the next sample.
    pub(super) fn next(&mut self) -> Option<(String, io::Result<Vec<u8>>)> {
        let index = self.members.next()?;
        let name = self.zip.name_for_index(index).and_then(Result::ok);
        let name = name.unwrap_or_default().into_owned();
        Some((name, self.unpack(index)))
    }

    fn unpack(&mut self, index: usize) -> io::Result<Vec<u8>> {
        let member = self.zip.by_index(index).map_err(broken)?;
        let packed = member.compressed_size();
        let mut bytes = Vec::new();
        member.take(MAX_LINE as u64 + 1).read_to_end(&mut bytes).map_err(broken)?;
        if bytes.len() > MAX_LINE {
            return Err(io::Error::other(format!(
                "unpacks to more than {MAX_LINE} bytes, the limit"
            )));
        }
        self.packed += packed;
        self.unpacked += bytes.len() as u64;
        unpack::check(self.packed, self.unpacked)?;
        Ok(bytes)
    }
}
