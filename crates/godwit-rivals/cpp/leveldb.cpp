// LevelDB as Bitcoin Core opens it (src/dbwrapper.cpp, GetOptions), behind extern "C". The library
// itself is the one inside libbitcoinkernel.a: Core's fork, compiled with Core's flags.

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/write_batch.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace {

// Core's logger drops every line unless -debug=leveldb is given.
struct SilentLogger final : leveldb::Logger {
    void Logv(const char*, va_list) override {}
};

enum Status : int { OK = 0, NOT_FOUND = 1, CORRUPTION = 2, IO_ERROR = 3, OTHER = 4, WRONG_LENGTH = 5 };

Status status_of(const leveldb::Status& status)
{
    if (status.ok()) return OK;
    if (status.IsNotFound()) return NOT_FOUND;
    if (status.IsCorruption()) return CORRUPTION;
    if (status.IsIOError()) return IO_ERROR;
    return OTHER;
}

} // namespace

struct godwit_leveldb {
    SilentLogger logger;
    std::unique_ptr<leveldb::Cache> cache;
    std::unique_ptr<const leveldb::FilterPolicy> filter;
    leveldb::Options options;
    leveldb::WriteBatch batch;
    std::unique_ptr<leveldb::DB> db; // destroyed first: it uses all of the above
};

extern "C" {

int godwit_leveldb_open(const char* path, std::size_t cache_bytes, std::size_t max_file_size, int wipe, godwit_leveldb** out)
{
    auto handle{std::make_unique<godwit_leveldb>()};
    handle->cache.reset(leveldb::NewLRUCache(cache_bytes / 2));
    handle->filter.reset(leveldb::NewBloomFilterPolicy(10));
    leveldb::Options& options{handle->options};
    options.block_cache = handle->cache.get();
    options.write_buffer_size = cache_bytes / 4;
    options.filter_policy = handle->filter.get();
    options.compression = leveldb::kNoCompression;
    options.info_log = &handle->logger;
    options.paranoid_checks = true;
    options.create_if_missing = true;
    options.max_file_size = max_file_size;
    if (wipe) {
        const leveldb::Status destroyed{leveldb::DestroyDB(path, options)};
        if (!destroyed.ok()) return status_of(destroyed);
    }
    leveldb::DB* db{nullptr};
    const leveldb::Status opened{leveldb::DB::Open(options, path, &db)};
    if (!opened.ok()) return status_of(opened);
    handle->db.reset(db);
    *out = handle.release();
    return OK;
}

void godwit_leveldb_put(godwit_leveldb* handle, const char* key, std::size_t key_size, const char* value, std::size_t value_size)
{
    handle->batch.Put({key, key_size}, {value, value_size});
}

void godwit_leveldb_erase(godwit_leveldb* handle, const char* key, std::size_t key_size)
{
    handle->batch.Delete({key, key_size});
}

std::size_t godwit_leveldb_batch_size(const godwit_leveldb* handle)
{
    return handle->batch.ApproximateSize();
}

int godwit_leveldb_write(godwit_leveldb* handle, int sync)
{
    leveldb::WriteOptions options;
    options.sync = sync != 0;
    const leveldb::Status written{handle->db->Write(options, &handle->batch)};
    handle->batch.Clear();
    return status_of(written);
}

// The value is copied, and has to have exactly value_size bytes.
int godwit_leveldb_get(const godwit_leveldb* handle, const char* key, std::size_t key_size, char* value, std::size_t value_size)
{
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    std::string found;
    const leveldb::Status status{handle->db->Get(options, {key, key_size}, &found)};
    if (!status.ok()) return status_of(status);
    if (found.size() != value_size) return WRONG_LENGTH;
    found.copy(value, value_size);
    return OK;
}

int godwit_leveldb_count(const godwit_leveldb* handle, char prefix, uint64_t* out)
{
    leveldb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = false;
    const std::unique_ptr<leveldb::Iterator> it{handle->db->NewIterator(options)};
    uint64_t count{0};
    for (it->Seek({&prefix, 1}); it->Valid() && it->key()[0] == prefix; it->Next()) ++count;
    *out = count;
    return status_of(it->status());
}

void godwit_leveldb_close(godwit_leveldb* handle)
{
    delete handle;
}

} // extern "C"
