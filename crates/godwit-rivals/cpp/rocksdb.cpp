// RocksDB behind extern "C": coins that arrive sorted become one table file, which the store then
// takes over. Nothing is compressed, as in Core's LevelDB.

#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace {

enum Status : int { OK = 0, NOT_FOUND = 1, CORRUPTION = 2, IO_ERROR = 3, OTHER = 4, WRONG_LENGTH = 5 };

Status status_of(const rocksdb::Status& status)
{
    if (status.ok()) return OK;
    if (status.IsNotFound()) return NOT_FOUND;
    if (status.IsCorruption()) return CORRUPTION;
    if (status.IsIOError()) return IO_ERROR;
    return OTHER;
}

rocksdb::Options coin_options()
{
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    return options;
}

} // namespace

struct godwit_rocksdb {
    rocksdb::Options options{coin_options()};
    std::string table_path;
    std::unique_ptr<rocksdb::SstFileWriter> table;
    std::unique_ptr<rocksdb::DB> db;
};

extern "C" {

int godwit_rocksdb_open(const char* path, godwit_rocksdb** out)
{
    auto handle{std::make_unique<godwit_rocksdb>()};
    handle->table_path = std::string{path} + "/sorted.table";
    rocksdb::DB* db{nullptr};
    const rocksdb::Status opened{rocksdb::DB::Open(handle->options, path, &db)};
    if (!opened.ok()) return status_of(opened);
    handle->db.reset(db);
    *out = handle.release();
    return OK;
}

// Keys must arrive in ascending order.
int godwit_rocksdb_add(godwit_rocksdb* handle, const char* key, std::size_t key_size, const char* value, std::size_t value_size)
{
    if (!handle->table) {
        handle->table = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions{}, handle->options);
        const rocksdb::Status opened{handle->table->Open(handle->table_path)};
        if (!opened.ok()) return status_of(opened);
    }
    return status_of(handle->table->Put({key, key_size}, {value, value_size}));
}

// Takes over what was added, then writes one more record with sync.
int godwit_rocksdb_finish(godwit_rocksdb* handle, const char* key, std::size_t key_size, const char* value, std::size_t value_size)
{
    if (handle->table) {
        const rocksdb::Status finished{handle->table->Finish()};
        if (!finished.ok()) return status_of(finished);
        rocksdb::IngestExternalFileOptions ingest;
        ingest.move_files = true;
        const rocksdb::Status ingested{handle->db->IngestExternalFile({handle->table_path}, ingest)};
        if (!ingested.ok()) return status_of(ingested);
    }
    rocksdb::WriteOptions options;
    options.sync = true;
    return status_of(handle->db->Put(options, {key, key_size}, {value, value_size}));
}

// The value is copied, and has to have exactly value_size bytes.
int godwit_rocksdb_get(const godwit_rocksdb* handle, const char* key, std::size_t key_size, char* value, std::size_t value_size)
{
    std::string found;
    const rocksdb::Status status{handle->db->Get(rocksdb::ReadOptions{}, {key, key_size}, &found)};
    if (!status.ok()) return status_of(status);
    if (found.size() != value_size) return WRONG_LENGTH;
    found.copy(value, value_size);
    return OK;
}

int godwit_rocksdb_count(const godwit_rocksdb* handle, char prefix, uint64_t* out)
{
    const std::unique_ptr<rocksdb::Iterator> it{handle->db->NewIterator(rocksdb::ReadOptions{})};
    uint64_t count{0};
    for (it->Seek({&prefix, 1}); it->Valid() && it->key()[0] == prefix; it->Next()) ++count;
    *out = count;
    return status_of(it->status());
}

void godwit_rocksdb_close(godwit_rocksdb* handle)
{
    delete handle;
}

} // extern "C"
