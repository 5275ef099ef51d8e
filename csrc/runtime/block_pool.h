#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace torch_fl {

// A piece of a segment, which is one allocation of the vendor's. The pieces of a segment are a list in
// address order.
struct Block {
    Block(void* pointer, size_t size, c10::Stream stream, bool small)
        : pointer(pointer), size(size), stream(stream), small(small) {}

    bool isSplit() const { return previous != nullptr || next != nullptr; }

    void* pointer;
    size_t size;          // bytes, a multiple of c10::CachingAllocator::kMinBlockSize
    size_t requested = 0; // bytes that the client asked for
    c10::Stream stream;   // reused without further ado only by work on this stream
    bool small;           // from a segment for small requests
    bool free = true;
    size_t pending_events = 0;        // of streams in used_on, while the client has given the block back
    std::vector<c10::Stream> used_on; // other streams that read or write it
    Block* previous = nullptr;        // neighbours in the segment
    Block* next = nullptr;
    Block* free_previous = nullptr; // neighbours in a list of free blocks
    Block* free_next = nullptr;
};

// Free blocks of one stream by size. Sizes fall into bins, 16 to each power of two, and a bit per bin says
// whether it holds anything: finding, adding and removing take no search and no allocation.
class FreeLists {
public:
    void insert(Block* block);
    void remove(Block* block);

    // A block of at least `size` bytes, from the bin of that size if it holds one that is large enough, else
    // from the next bin that is not empty; nullptr if there is none. It stays in its list.
    Block* find(size_t size) const;

private:
    static constexpr size_t kBins = 576; // the last one takes everything from 32 TiB up

    static size_t binOf(size_t size);

    std::array<Block*, kBins> heads_{};
    std::bitset<kBins> occupied_;
};

// Bookkeeping of one device's memory: segments, their pieces, and the statistics PyTorch defines over them.
// Makes no vendor call and is not thread-safe. Small requests (up to 1 MiB) and large ones use segments of
// their own, so that a small block that lives long does not hold a large segment.
class BlockPool {
public:
    // Bytes of the block that serves a request: a multiple of 512.
    static size_t blockSize(size_t requested);

    // Bytes of the segment to get from the vendor when no free block serves it.
    static size_t segmentSize(size_t block_size);

    // A free block of the stream, cut to `block_size` where the rest is worth keeping; nullptr if there is
    // none.
    Block* take(size_t requested, c10::Stream stream);

    // Adds a new segment as one free block.
    void addSegment(void* pointer, size_t bytes, c10::Stream stream, bool small);

    // The client has given the block back, but other streams may still use it: it counts as active until
    // release().
    void retire(Block& block);

    // Returns a retired block to its free list, merged with free neighbours.
    void release(Block& block);

    // First blocks of the segments that are wholly free.
    std::vector<Block*> idleSegments() const;

    // Forgets a segment that is wholly free.
    void dropSegment(Block& block);

    // True for an address in any segment, free or not.
    bool contains(const void* pointer) const;

    c10::CachingDeviceAllocator::DeviceStats& stats() { return stats_; }
    size_t allocatedBytes() const;
    size_t reservedBytes() const;

private:
    struct Segment {
        Block* first;
        size_t bytes;
    };

    // Adds to (amount > 0) or takes from a statistic, in total and for the kind of segment.
    static void count(c10::CachingAllocator::StatArray& stat, const Block& block, int64_t amount);

    FreeLists& freeLists(const Block& block) { return freeLists(block.stream, block.small); }
    FreeLists& freeLists(c10::Stream stream, bool small);
    void insertFree(Block& block);
    void removeFree(Block& block);
    Block* newBlock(void* pointer, size_t size, c10::Stream stream, bool small);
    void recycle(Block& block);
    void split(Block& block, size_t size);
    // Makes `right` part of `left`, its neighbour; neither is in a free list.
    void absorb(Block& left, Block& right);

    // Blocks are never freed, only recycled: a client's context pointer is a Block*.
    std::deque<Block> blocks_;
    std::vector<Block*> recycled_;
    std::map<uintptr_t, Segment> segments_;
    // By stream, for large and for small segments.
    std::unordered_map<c10::Stream, std::array<std::unique_ptr<FreeLists>, 2>> free_lists_;
    c10::CachingDeviceAllocator::DeviceStats stats_;
};

} // namespace torch_fl
