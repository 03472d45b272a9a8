//! A list on which several threads work, each on its own share.

use crate::error::ChainError;

/// Results of `work` for all `items`, in their order; the calling thread does it alone where it is the only
/// one.
///
/// # Errors
///
/// The first error in the order of the items.
pub(crate) fn in_shares<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, ChainError> + Sync,
) -> Result<Vec<R>, ChainError> {
    let all = |items: &[T]| -> Result<Vec<R>, ChainError> { items.iter().map(&work).collect() };
    if threads <= 1 || items.len() <= 1 {
        return all(items);
    }
    let all = &all;
    let shares: Vec<_> = std::thread::scope(|scope| {
        let spawn = |share| {
            let thread = std::thread::Builder::new().name("godwit-share".to_owned());
            thread.spawn_scoped(scope, move || all(share)).map_err(ChainError::Spawn)
        };
        let running: Vec<_> = items.chunks(items.len().div_ceil(threads)).map(spawn).collect();
        running.into_iter().map(|thread| thread.map(|thread| thread.join())).collect()
    });
    let mut results = Vec::with_capacity(items.len());
    for share in shares {
        results.extend(share?.map_err(|_| ChainError::ThreadPanicked)??);
    }
    Ok(results)
}
