//! The optimizer's moments as a file. Where they are sharded, all ranks send theirs tensor by tensor while the first
//! writes, so that none holds them whole.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::path::Path;

use anyhow::{Error, Result};
use candle_core::Shape;
use safetensors::Dtype;
use safetensors::tensor::View;

use super::AdamW;
use tealight_nn::model::weights;

/// The moments of all weights, which are gathered in the order of the file.
pub(super) struct SavedMoments<'a> {
    optimizer: &'a AdamW,
    tensors: Vec<(usize, &'a str, &'a Shape)>,
    /// Number of those that have been gathered.
    gathered: Cell<usize>,
    /// Why one could not be gathered: a file's tensors cannot say so themselves.
    failed: RefCell<Option<Error>>,
}

impl<'a> SavedMoments<'a> {
    /// Those of an optimizer, none of which has been gathered.
    pub(super) fn new(optimizer: &'a AdamW) -> Self {
        let tensors = optimizer.saved().collect();
        Self { optimizer, tensors, gathered: Cell::new(0), failed: RefCell::new(None) }
    }

    /// Writes them to a file, on the first rank; the others call [`Self::finish`] meanwhile.
    ///
    /// # Errors
    /// A full disk, another rank that has disconnected.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let name = |(kind, weight, _): &(usize, &str, &Shape)| AdamW::saved_name(*kind, weight);
        let names: Vec<String> = self.tensors.iter().map(name).collect();
        let moment = |(index, name)| (name, Moment { all: self, index });
        let written = weights::save_views(names.iter().enumerate().map(moment), path);
        match self.failed.take() {
            Some(error) => Err(error),
            None => written,
        }
    }

    /// Takes part in gathering those that have not been: all of them where another rank writes, the rest where this
    /// one could not write.
    pub(super) fn finish(self) -> Result<()> {
        while self.optimizer.shards().are_several() && self.gathered.get() < self.tensors.len() {
            self.next()?;
        }
        Ok(())
    }

    /// The bytes of the next one.
    fn next(&self) -> Result<Vec<u8>> {
        let (kind, weight, _) = self.tensors[self.gathered.get()];
        self.gathered.set(self.gathered.get() + 1);
        self.optimizer.gather(kind, weight)
    }
}

/// One of them, gathered when its bytes are asked for.
struct Moment<'a> {
    all: &'a SavedMoments<'a>,
    index: usize,
}

impl View for Moment<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.all.tensors[self.index].2.dims()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        if self.all.failed.borrow().is_some() {
            return Cow::default();
        }
        assert_eq!(self.index, self.all.gathered.get(), "moments are written in order, once each");
        let bytes = self.all.next().unwrap_or_else(|error| {
            self.all.failed.replace(Some(error));
            Vec::new()
        });
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        self.all.tensors[self.index].2.elem_count() * size_of::<f32>()
    }
}
