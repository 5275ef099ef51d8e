#include "runtime/block_pool.h"

#include <c10/core/AllocatorConfig.h>

#include <algorithm>
#include <bit>

namespace torch_fl {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingAllocator::kMinBlockSize;
using c10::CachingAllocator::kMinLargeAlloc;
using c10::CachingAllocator::kRoundLarge;
using c10::CachingAllocator::kSmallBuffer;
using c10::CachingAllocator::kSmallSize;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

namespace {

size_t roundUp(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

uintptr_t addressOf(const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
}

// The rest of a large block is worth keeping only if a large request can use it.
size_t smallestRest(bool small) {
    return small ? kMinBlockSize : kSmallSize + kMinBlockSize;
}

} // namespace

size_t FreeLists::binOf(size_t size) {
    const size_t units = size / kMinBlockSize;
    if (units < 16) {
        return units;
    }
    const auto exponent = static_cast<size_t>(std::bit_width(units)) - 1;
    return std::min((exponent - 3) * 16 + ((units >> (exponent - 4)) & 15), kBins - 1);
}

void FreeLists::insert(Block* block) {
    const size_t bin = binOf(block->size);
    block->free_previous = nullptr;
    block->free_next = heads_[bin];
    if (heads_[bin] != nullptr) {
        heads_[bin]->free_previous = block;
    }
    heads_[bin] = block;
    occupied_.set(bin);
}

void FreeLists::remove(Block* block) {
    const size_t bin = binOf(block->size);
    if (block->free_previous != nullptr) {
        block->free_previous->free_next = block->free_next;
    } else {
        heads_[bin] = block->free_next;
        occupied_.set(bin, heads_[bin] != nullptr);
    }
    if (block->free_next != nullptr) {
        block->free_next->free_previous = block->free_previous;
    }
}

Block* FreeLists::find(size_t size) const {
    // Blocks of one bin differ by less than a sixteenth. A few are looked at for the tightest fit.
    constexpr int kProbes = 16;
    const size_t bin = binOf(size);
    Block* best = nullptr;
    int probes = 0;
    for (Block* block = heads_[bin]; block != nullptr && probes < kProbes; block = block->free_next) {
        ++probes;
        if (block->size >= size && (best == nullptr || block->size < best->size)) {
            best = block;
            if (block->size == size) {
                break;
            }
        }
    }
    if (best != nullptr) {
        return best;
    }
    const size_t larger = occupied_._Find_next(bin);
    return larger < kBins ? heads_[larger] : nullptr;
}

size_t BlockPool::blockSize(size_t requested) {
    return std::max(roundUp(requested, kMinBlockSize), kMinBlockSize);
}

size_t BlockPool::segmentSize(size_t block_size) {
    if (block_size <= kSmallSize) {
        return kSmallBuffer;
    }
    if (block_size < kMinLargeAlloc) {
        return AcceleratorAllocatorConfig::large_segment_size();
    }
    return roundUp(block_size, kRoundLarge);
}

Block* BlockPool::take(size_t requested, c10::Stream stream) {
    const size_t size = blockSize(requested);
    const bool small = size <= kSmallSize;
    Block* const block = freeLists(stream, small).find(size);
    if (block == nullptr) {
        return nullptr;
    }
    removeFree(*block);
    if (block->size - size >= smallestRest(small)) {
        split(*block, size);
    }
    block->requested = requested;
    count(stats_.allocation, *block, 1);
    count(stats_.allocated_bytes, *block, static_cast<int64_t>(block->size));
    count(stats_.requested_bytes, *block, static_cast<int64_t>(requested));
    count(stats_.active, *block, 1);
    count(stats_.active_bytes, *block, static_cast<int64_t>(block->size));
    return block;
}

void BlockPool::addSegment(void* pointer, size_t bytes, c10::Stream stream, bool small) {
    Block* const block = newBlock(pointer, bytes, stream, small);
    segments_[addressOf(pointer)] = {block, bytes};
    ++stats_.num_device_alloc;
    count(stats_.segment, *block, 1);
    count(stats_.reserved_bytes, *block, static_cast<int64_t>(bytes));
    insertFree(*block);
}

void BlockPool::retire(Block& block) {
    count(stats_.allocation, block, -1);
    count(stats_.allocated_bytes, block, -static_cast<int64_t>(block.size));
    count(stats_.requested_bytes, block, -static_cast<int64_t>(block.requested));
}

void BlockPool::release(Block& block) {
    count(stats_.active, block, -1);
    count(stats_.active_bytes, block, -static_cast<int64_t>(block.size));
    block.requested = 0;
    Block* merged = &block;
    if (merged->next != nullptr && merged->next->free) {
        removeFree(*merged->next);
        absorb(*merged, *merged->next);
    }
    if (merged->previous != nullptr && merged->previous->free) {
        Block* const left = merged->previous;
        removeFree(*left);
        absorb(*left, *merged);
        merged = left;
    }
    insertFree(*merged);
}

std::vector<Block*> BlockPool::idleSegments() const {
    std::vector<Block*> idle;
    for (const auto& [address, segment] : segments_) {
        if (segment.first->free && !segment.first->isSplit()) {
            idle.push_back(segment.first);
        }
    }
    return idle;
}

void BlockPool::dropSegment(Block& block) {
    TORCH_INTERNAL_ASSERT(block.free && !block.isSplit());
    removeFree(block);
    ++stats_.num_device_free;
    count(stats_.segment, block, -1);
    count(stats_.reserved_bytes, block, -static_cast<int64_t>(block.size));
    segments_.erase(addressOf(block.pointer));
    recycle(block);
}

bool BlockPool::contains(const void* pointer) const {
    auto above = segments_.upper_bound(addressOf(pointer));
    if (above == segments_.begin()) {
        return false;
    }
    --above;
    return addressOf(pointer) - above->first < above->second.bytes;
}

size_t BlockPool::allocatedBytes() const {
    return static_cast<size_t>(stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

size_t BlockPool::reservedBytes() const {
    return static_cast<size_t>(stats_.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

void BlockPool::count(StatArray& stat, const Block& block, int64_t amount) {
    const StatType kind = block.small ? StatType::SMALL_POOL : StatType::LARGE_POOL;
    for (const StatType type : {StatType::AGGREGATE, kind}) {
        auto& entry = stat[static_cast<size_t>(type)];
        if (amount >= 0) {
            entry.increase(static_cast<size_t>(amount));
        } else {
            entry.decrease(static_cast<size_t>(-amount));
        }
    }
}

FreeLists& BlockPool::freeLists(c10::Stream stream, bool small) {
    std::unique_ptr<FreeLists>& lists = free_lists_[stream][small ? 1 : 0];
    if (lists == nullptr) {
        lists = std::make_unique<FreeLists>();
    }
    return *lists;
}

void BlockPool::insertFree(Block& block) {
    block.free = true;
    freeLists(block).insert(&block);
    // Whether a block is one of several in its segment does not change while it is free.
    if (block.isSplit()) {
        count(stats_.inactive_split, block, 1);
        count(stats_.inactive_split_bytes, block, static_cast<int64_t>(block.size));
    }
}

void BlockPool::removeFree(Block& block) {
    block.free = false;
    freeLists(block).remove(&block);
    if (block.isSplit()) {
        count(stats_.inactive_split, block, -1);
        count(stats_.inactive_split_bytes, block, -static_cast<int64_t>(block.size));
    }
}

Block* BlockPool::newBlock(void* pointer, size_t size, c10::Stream stream, bool small) {
    if (recycled_.empty()) {
        return &blocks_.emplace_back(pointer, size, stream, small);
    }
    Block* const block = recycled_.back();
    recycled_.pop_back();
    *block = Block(pointer, size, stream, small);
    return block;
}

void BlockPool::recycle(Block& block) {
    recycled_.push_back(&block);
}

void BlockPool::split(Block& block, size_t size) {
    Block* const rest =
        newBlock(static_cast<char*>(block.pointer) + size, block.size - size, block.stream, block.small);
    block.size = size;
    rest->previous = &block;
    rest->next = block.next;
    if (block.next != nullptr) {
        block.next->previous = rest;
    }
    block.next = rest;
    insertFree(*rest);
}

void BlockPool::absorb(Block& left, Block& right) {
    left.size += right.size;
    left.next = right.next;
    if (right.next != nullptr) {
        right.next->previous = &left;
    }
    recycle(right);
}

} // namespace torch_fl
