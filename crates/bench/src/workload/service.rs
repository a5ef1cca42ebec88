// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that has mounted the volume of a workload.

use super::Letter;
use super::files::Files;
use super::pool::Pool;
use devices::error::Result;
use files::{Mounted, service};
use std::sync::mpsc::Receiver;

/// The end of the thread that has mounted the volume.
pub struct Service(Receiver<Letter>);

impl Service {
    pub(super) const fn new(letters: Receiver<Letter>) -> Self {
        Self(letters)
    }

    /// Performs operations until all senders have been dropped.
    ///
    /// # Errors
    /// There is no memory for buffers.
    pub fn serve(self, mounted: &Mounted<'_, '_>) -> Result<()> {
        let pool = Pool::new(mounted.memory)?;
        {
            let files = Files::new(mounted, &pool);
            let begin = |letter: Letter| -> service::Job<'_> {
                let files = &files;
                Box::pin(async move {
                    let answer = files.serve(letter.session, letter.want).await;
                    // A thread that no longer waits has ended.
                    let _ = letter.answer.send(answer);
                })
            };
            let take_back = |event| files.take_back(event);
            service::serve(mounted.volume, &self.0, &|| false, &begin, &take_back);
        }
        pool.give_back(mounted.memory);
        Ok(())
    }
}
