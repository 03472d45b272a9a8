// LevelDB as Bitcoin Core opens it (src/dbwrapper.cpp, GetOptions), behind extern "C". The library itself
// is the one inside libbitcoinkernel.a: Core's fork, compiled with Core's flags. No exception leaves: what
// LevelDB throws (it wants memory, and there is none) ends the process.

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/write_batch.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

namespace {

struct SilentLogger final : leveldb::Logger {
    void Logv(const char*, va_list) override {}
};

// As in leveldb.rs. The number of a failed system call's error is added to SYSTEM_ERROR.
enum Status : int {
    OK = 0,
    MISSING = 1,
    CORRUPTION = 2,
    IO_ERROR = 3,
    LOCKED = 4,
    DISK_FULL = 5,
    OTHER = 6,
    SYSTEM_ERROR = 1000,
};

// The last number that Linux gives an error.
constexpr int MAX_ERRNO{EHWPOISON};

// The number of the error whose text this one ends with; 0 for none.
int errno_of(const std::string& text)
{
    for (int number{1}; number <= MAX_ERRNO; ++number) {
        if (text.ends_with(std::string{": "} + std::strerror(number))) return number;
    }
    return 0;
}

// Of a failed system call LevelDB tells only by text what failed and why.
int status_of(const leveldb::Status& status)
{
    if (status.ok()) return OK;
    if (status.IsNotFound()) return MISSING;
    if (status.IsCorruption()) return CORRUPTION;
    // A database that is not there, and is not to be made.
    if (status.IsInvalidArgument()) return MISSING;
    if (!status.IsIOError()) return OTHER;
    const std::string text{status.ToString()};
    if (text.find("IO error: lock ") == 0) return LOCKED;
    if (text.find(std::strerror(ENOSPC)) != std::string::npos) return DISK_FULL;
    const int number{errno_of(text)};
    return number == 0 ? IO_ERROR : SYSTEM_ERROR + number;
}

} // namespace

struct godwit_leveldb {
    SilentLogger logger;
    std::unique_ptr<leveldb::Cache> cache;
    std::unique_ptr<const leveldb::FilterPolicy> filter;
    leveldb::WriteBatch batch;
    std::unique_ptr<leveldb::DB> db; // destroyed first: it uses all of the above
};

struct godwit_leveldb_cursor {
    std::unique_ptr<leveldb::Iterator> it;
};

extern "C" {

int godwit_handover_open(const char* path, int create, std::size_t write_buffer, std::size_t cache,
                         int open_files, godwit_leveldb** out) noexcept
{
    auto handle{std::make_unique<godwit_leveldb>()};
    handle->cache.reset(leveldb::NewLRUCache(cache));
    handle->filter.reset(leveldb::NewBloomFilterPolicy(10));
    leveldb::Options options;
    options.block_cache = handle->cache.get();
    options.write_buffer_size = write_buffer;
    options.filter_policy = handle->filter.get();
    options.compression = leveldb::kNoCompression;
    options.info_log = &handle->logger;
    options.paranoid_checks = true;
    options.create_if_missing = create != 0;
    options.error_if_exists = create != 0;
    options.max_open_files = open_files;
    leveldb::DB* db{nullptr};
    const leveldb::Status opened{leveldb::DB::Open(options, path, &db)};
    if (!opened.ok()) return status_of(opened);
    handle->db.reset(db);
    *out = handle.release();
    return OK;
}

void godwit_handover_close(godwit_leveldb* handle) noexcept
{
    delete handle;
}

void godwit_handover_put(godwit_leveldb* handle, const char* key, std::size_t key_size, const char* value,
                         std::size_t value_size) noexcept
{
    handle->batch.Put({key, key_size}, {value, value_size});
}

std::size_t godwit_handover_batch_size(const godwit_leveldb* handle) noexcept
{
    return handle->batch.ApproximateSize();
}

int godwit_handover_write(godwit_leveldb* handle, int sync) noexcept
{
    leveldb::WriteOptions options;
    options.sync = sync != 0;
    const leveldb::Status written{handle->db->Write(options, &handle->batch)};
    handle->batch.Clear();
    return status_of(written);
}

// A cursor at the first key that is not below the given one.
godwit_leveldb_cursor* godwit_handover_seek(const godwit_leveldb* handle, const char* key,
                                            std::size_t key_size) noexcept
{
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;
    auto cursor{std::make_unique<godwit_leveldb_cursor>()};
    cursor->it.reset(handle->db->NewIterator(options));
    cursor->it->Seek({key, key_size});
    return cursor.release();
}

// Whether there is an entry; what is pointed to stays until the cursor moves.
int godwit_handover_entry(const godwit_leveldb_cursor* cursor, const char** key, std::size_t* key_size,
                          const char** value, std::size_t* value_size) noexcept
{
    if (!cursor->it->Valid()) return 0;
    *key = cursor->it->key().data();
    *key_size = cursor->it->key().size();
    *value = cursor->it->value().data();
    *value_size = cursor->it->value().size();
    return 1;
}

void godwit_handover_next(godwit_leveldb_cursor* cursor) noexcept
{
    cursor->it->Next();
}

int godwit_handover_status(const godwit_leveldb_cursor* cursor) noexcept
{
    return status_of(cursor->it->status());
}

void godwit_handover_cursor_close(godwit_leveldb_cursor* cursor) noexcept
{
    delete cursor;
}

} // extern "C"
