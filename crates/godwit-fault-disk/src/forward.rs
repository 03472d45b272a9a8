//! Macros for wrappers of a disk, a file or an executor: they write the methods that only call the same
//! method of the wrapped value.

/// Types that occur in the signatures, for crates that do not depend on the crates that define them.
#[doc(hidden)]
pub mod types {
    pub use godwit_disk::DiskLock;
    pub use godwit_disk::exec::{Priority, WorkerPool};
    pub use godwit_stream::DataStream;
}

/// In an `impl Disk`: these methods do what those of field `disk` do. With `after trap`, each calls
/// `self.trap.pass()` first.
#[macro_export]
macro_rules! forward_disk {
    (@create_dir_all $disk:tt $($trap:ident)?) => {
        fn create_dir_all(&self, path: &::std::path::Path) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$disk.create_dir_all(path)
        }
    };
    (@sync_dir $disk:tt $($trap:ident)?) => {
        fn sync_dir(&self, path: &::std::path::Path) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$disk.sync_dir(path)
        }
    };
    (@rename $disk:tt $($trap:ident)?) => {
        fn rename(&self, from: &::std::path::Path, to: &::std::path::Path) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$disk.rename(from, to)
        }
    };
    (@remove $disk:tt $($trap:ident)?) => {
        fn remove(&self, path: &::std::path::Path) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$disk.remove(path)
        }
    };
    (@list $disk:tt $($trap:ident)?) => {
        fn list(
            &self,
            path: &::std::path::Path,
        ) -> ::std::io::Result<::std::vec::Vec<::std::ffi::OsString>> {
            $(self.$trap.pass();)?
            self.$disk.list(path)
        }
    };
    (@free_bytes $disk:tt $($trap:ident)?) => {
        fn free_bytes(&self, dir: &::std::path::Path) -> ::std::io::Result<u64> {
            $(self.$trap.pass();)?
            self.$disk.free_bytes(dir)
        }
    };
    (@try_lock $disk:tt $($trap:ident)?) => {
        fn try_lock(
            &self,
            path: &::std::path::Path,
        ) -> ::std::io::Result<
            ::std::option::Option<::std::boxed::Box<dyn $crate::forward::types::DiskLock>>,
        > {
            $(self.$trap.pass();)?
            self.$disk.try_lock(path)
        }
    };
    ($disk:tt after $trap:ident: $($method:ident),+) => {
        $($crate::forward_disk!(@$method $disk $trap);)+
    };
    ($disk:tt: $($method:ident),+) => {
        $($crate::forward_disk!(@$method $disk);)+
    };
}

/// In an `impl DiskFile`: these methods do what those of field `file` do. With `after trap`, each calls
/// `self.trap.pass()` first.
#[macro_export]
macro_rules! forward_file {
    (@read_exact_at $file:tt $($trap:ident)?) => {
        fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$file.read_exact_at(offset, out)
        }
    };
    (@read_or_fetch_at $file:tt $($trap:ident)?) => {
        fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> ::std::io::Result<bool> {
            $(self.$trap.pass();)?
            self.$file.read_or_fetch_at(offset, out)
        }
    };
    (@read_stream_at $file:tt $($trap:ident)?) => {
        fn read_stream_at(
            &self,
            offset: u64,
            len: usize,
            out: &mut $crate::forward::types::DataStream,
        ) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$file.read_stream_at(offset, len, out)
        }
    };
    (@write_all_at $file:tt $($trap:ident)?) => {
        fn write_all_at(&self, offset: u64, data: &[u8]) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$file.write_all_at(offset, data)
        }
    };
    (@sync $file:tt $($trap:ident)?) => {
        fn sync(&self) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$file.sync()
        }
    };
    (@file_len $file:tt $($trap:ident)?) => {
        fn file_len(&self) -> ::std::io::Result<u64> {
            $(self.$trap.pass();)?
            self.$file.file_len()
        }
    };
    (@set_len $file:tt $($trap:ident)?) => {
        fn set_len(&self, len: u64) -> ::std::io::Result<()> {
            $(self.$trap.pass();)?
            self.$file.set_len(len)
        }
    };
    ($file:tt after $trap:ident: $($method:ident),+) => {
        $($crate::forward_file!(@$method $file $trap);)+
    };
    ($file:tt: $($method:ident),+) => {
        $($crate::forward_file!(@$method $file);)+
    };
}

/// In an `impl Executor` with a clock of its own: jobs run on the executor of field `executor`.
#[macro_export]
macro_rules! forward_jobs {
    ($executor:tt) => {
        fn start(
            &self,
            name: &'static str,
            threads: usize,
            capacity: [usize; $crate::forward::types::Priority::COUNT],
        ) -> ::std::io::Result<::std::boxed::Box<dyn $crate::forward::types::WorkerPool>> {
            self.$executor.start(name, threads, capacity)
        }

        fn run_one(&self) -> bool {
            self.$executor.run_one()
        }

        fn spawn_beside(
            &self,
            name: &'static str,
            task: ::std::boxed::Box<dyn FnOnce() + Send>,
        ) -> ::std::io::Result<::std::option::Option<::std::thread::JoinHandle<()>>> {
            self.$executor.spawn_beside(name, task)
        }
    };
}
