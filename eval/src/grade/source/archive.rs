//! The samples in an `.eval` log of Inspect's: a zip archive with one JSON document for each sample. Names in the
//! archive select members and are shown; they are never paths.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use tealight_core::lines::MAX_LINE;

use super::{unpack, zstandard};

/// Most bytes of the list of members.
const MAX_DIRECTORY: u64 = 256 << 20;
/// Bytes of the record at the end of an archive, and most bytes of the comment behind it.
const END: u64 = 22;
const MAX_COMMENT: u64 = u16::MAX as u64;

/// The samples of an archive, in the order of its list.
pub(super) struct Archive {
    file: File,
    members: std::vec::IntoIter<Member>,
    packed: u64,
    unpacked: u64,
}

struct Member {
    name: String,
    method: u16,
    crc: u32,
    packed: u64,
    offset: u64,
}

fn broken(why: &str) -> io::Error {
    io::Error::other(format!("a zip archive that cannot be read: {why}"))
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    let part = bytes.get(at..at + 2).and_then(|part| part.try_into().ok());
    part.map(u16::from_le_bytes).ok_or_else(|| broken("it ends too early"))
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    let part = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
    part.map(u32::from_le_bytes).ok_or_else(|| broken("it ends too early"))
}

fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    part.map(u64::from_le_bytes).ok_or_else(|| broken("it ends too early"))
}

impl Archive {
    /// Reads the list of members.
    ///
    /// # Errors
    /// Not a zip archive, one without samples, one whose members overlap.
    pub(super) fn open(mut file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let (start, length) = directory(&mut file, size)?;
        if length > MAX_DIRECTORY || start.checked_add(length).is_none_or(|end| end > size) {
            return Err(broken("its list of members is not inside the file"));
        }
        let list = read_at(&mut file, start, length)?;
        let (mut members, mut places) = (Vec::<Member>::new(), HashMap::new());
        let (mut at, mut total) = (0, 0_u64);
        while at < list.len() {
            let (member, next) = member(&list, at)?;
            at = next;
            total = total.saturating_add(member.packed);
            if !(member.name.starts_with("samples/") && member.name.ends_with(".json")) {
                continue;
            }
            // A sample that was written again stands twice; the later one counts, as for every reader of archives.
            match places.get(&member.name) {
                Some(place) => members[*place] = member,
                None => {
                    places.insert(member.name.clone(), members.len());
                    members.push(member);
                }
            }
        }
        if total > size {
            return Err(broken("its members overlap"));
        }
        if members.is_empty() {
            return Err(io::Error::other(
                "a zip archive without `samples/*.json`: of archives only Inspect's .eval logs are read",
            ));
        }
        Ok(Self { file, members: members.into_iter(), packed: 0, unpacked: 0 })
    }

    /// The name and the bytes of the next sample.
    pub(super) fn next(&mut self) -> Option<(String, io::Result<Vec<u8>>)> {
        let member = self.members.next()?;
        let bytes = self.unpack(&member);
        Some((member.name, bytes))
    }

    fn unpack(&mut self, member: &Member) -> io::Result<Vec<u8>> {
        let header = read_at(&mut self.file, member.offset, 30)?;
        if u32_at(&header, 0)? != 0x0403_4b50 {
            return Err(broken("no member where the list has one"));
        }
        let skipped = u64::from(u16_at(&header, 26)?) + u64::from(u16_at(&header, 28)?);
        self.file.seek(SeekFrom::Start(member.offset.saturating_add(30 + skipped)))?;
        let packed = BufReader::new((&self.file).take(member.packed));
        let mut bytes = Vec::new();
        let limit = MAX_LINE as u64 + 1;
        match member.method {
            0 => packed.take(limit).read_to_end(&mut bytes)?,
            8 => DeflateDecoder::new(packed).take(limit).read_to_end(&mut bytes)?,
            93 => zstandard::unpacked(packed)?.take(limit).read_to_end(&mut bytes)?,
            other => return Err(broken(&format!("its compression method {other} is not known"))),
        };
        if bytes.len() > MAX_LINE {
            return Err(io::Error::other(format!(
                "unpacks to more than {MAX_LINE} bytes, the limit"
            )));
        }
        self.packed += member.packed;
        self.unpacked += bytes.len() as u64;
        unpack::check(self.packed, self.unpacked)?;
        let mut crc = Crc::new();
        crc.update(&bytes);
        if crc.sum() != member.crc {
            return Err(broken("its checksum is another one"));
        }
        Ok(bytes)
    }
}

fn read_at(file: &mut File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length { Err(broken("it ends too early")) } else { Ok(bytes) }
}

/// Where the list of members stands, and its length, from the record at the end.
fn directory(file: &mut File, size: u64) -> io::Result<(u64, u64)> {
    let start = size.saturating_sub(END + MAX_COMMENT);
    let tail = read_at(file, start, size - start)?;
    let is_end = |at: &usize| {
        let comment = u16_at(&tail, at + 20).map(usize::from);
        tail[*at..].starts_with(b"PK\x05\x06")
            && comment.is_ok_and(|length| at + 22 + length == tail.len())
    };
    let last = tail.len().saturating_sub(END as usize);
    let at = (0..=last).rev().find(is_end).ok_or_else(|| broken("its end is missing"))?;
    let (length, offset) = (u32_at(&tail, at + 12)?, u32_at(&tail, at + 16)?);
    if length != u32::MAX && offset != u32::MAX && u16_at(&tail, at + 10)? != u16::MAX {
        return Ok((offset.into(), length.into()));
    }
    // Zip64: a further record, and where it stands directly before this one.
    let locator = at.checked_sub(20).map(|from| &tail[from..at]).unwrap_or_default();
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok((offset.into(), length.into()));
    }
    let end = read_at(file, u64_at(locator, 8)?, 56)?;
    if !end.starts_with(b"PK\x06\x06") {
        return Err(broken("its end is missing"));
    }
    Ok((u64_at(&end, 48)?, u64_at(&end, 40)?))
}

/// The member of the list at `at`, and where the next one begins.
fn member(list: &[u8], at: usize) -> io::Result<(Member, usize)> {
    let header = list.get(at..at + 46).ok_or_else(|| broken("it ends too early"))?;
    if !header.starts_with(b"PK\x01\x02") {
        return Err(broken("its list of members is damaged"));
    }
    let length = |from: usize| u16_at(header, from).map(usize::from);
    let name_end = at + 46 + length(28)?;
    let extra_end = name_end + length(30)?;
    let next = extra_end + length(32)?;
    let name = list.get(at + 46..name_end).ok_or_else(|| broken("it ends too early"))?;
    let extra = list.get(name_end..extra_end).ok_or_else(|| broken("it ends too early"))?;
    if u16_at(header, 8)? & 1 != 0 {
        return Err(broken("its members are encrypted"));
    }
    let (packed, unpacked, offset) =
        (u32_at(header, 20)?, u32_at(header, 24)?, u32_at(header, 42)?);
    let mut large = zip64(extra);
    let mut wide = |narrow: u32| -> io::Result<u64> {
        if narrow == u32::MAX {
            large.next().ok_or_else(|| broken("a size is missing"))
        } else {
            Ok(narrow.into())
        }
    };
    // The further fields stand in this order, each where its narrow one is full.
    wide(unpacked)?;
    let (packed, offset) = (wide(packed)?, wide(offset)?);
    let name = String::from_utf8_lossy(name).into_owned();
    Ok((
        Member { name, method: u16_at(header, 10)?, crc: u32_at(header, 16)?, packed, offset },
        next,
    ))
}

/// The 64-bit numbers among the extra fields of a member.
fn zip64(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut found: &[u8] = &[];
    while let (Ok(id), Ok(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let end = (4 + usize::from(length)).min(extra.len());
        if id == 1 {
            found = &extra[4..end];
        }
        extra = &extra[end..];
    }
    found.chunks_exact(8).filter_map(|part| part.try_into().ok()).map(u64::from_le_bytes)
}
