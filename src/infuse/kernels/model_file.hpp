// A file with a model for a library of closed functions: what it is for, its description, its program
// and its weights (written by build/model_file.py).
#pragma once
#include <stdio.h>
#include <string.h>

#include "interface.h"
#include "program.hpp"

namespace infuse {

constexpr int64_t MODEL_MAGIC = 0x464d455355464e49;  // INFUSEMF
constexpr int64_t MOST_SAMPLES = 64;                 // blocks of weights that are looked at
constexpr int64_t SAMPLE = 64;                       // bytes of each

/** What the file begins with. Facts, description (texts that end in zero) and program follow, each
 * at a multiple of 8, then the weights at a multiple of 64. */
struct ModelHead {
  int64_t magic, abi, bytes;
  uint64_t check;  // of all between this word and the weights
  uint64_t sample;  // of the weights
  int64_t facts_bytes, description_bytes, program_bytes, weights_at, weights_bytes;
};

struct ModelFile {
  const char *facts, *description, *program, *weights;
  int64_t program_bytes, weights_bytes;
};

inline uint64_t mixed(uint64_t state, const char* data, int64_t words) {
  for (int64_t i = 0; i < words; ++i) {
    uint64_t word;
    memcpy(&word, data + i * 8, 8);
    state = (state ^ word) * 0x100000001b3u;
    state ^= state >> 29;
  }
  return state;
}

/** A number of some blocks of the weights, which those of another model have with no likelihood. */
inline uint64_t sampled(const char* weights, int64_t bytes) {
  uint64_t state = uint64_t(bytes);
  const int64_t blocks = (bytes + SAMPLE - 1) / SAMPLE;
  const int64_t count = blocks < MOST_SAMPLES ? blocks : MOST_SAMPLES;
  for (int64_t i = 0; i < count; ++i) {
    char block[SAMPLE] = {};
    const int64_t at = count < 2 ? 0 : (bytes - SAMPLE) / (count - 1) * i;
    memcpy(block, weights + at, size_t(bytes < SAMPLE ? bytes : SAMPLE));
    state = mixed(state, block, SAMPLE / 8);
  }
  return state;
}

inline int64_t padded(int64_t bytes) { return bytes + (8 - bytes % 8) % 8; }

/** Whether lengths and places fit into so many bytes. */
inline bool is_whole(const ModelHead& head, int64_t bytes) {
  int64_t at = int64_t(sizeof head);
  const int64_t parts[] = {head.facts_bytes, head.description_bytes, head.program_bytes};
  for (const int64_t part : parts) {
    if (part < 1 || part > bytes - at) return false;
    at += padded(part);
    if (at > bytes) return false;
  }
  return head.bytes == bytes && head.weights_at >= at && head.weights_at <= bytes &&
         head.weights_at % 64 == 0 && head.weights_bytes == bytes - head.weights_at;
}

/** Whether facts are those of this library; `why` tells in what they differ. */
inline bool fits_library(const char* facts, char* why, isize room) {
  if (strcmp(facts, LIBRARY_FACTS) == 0) return true;
  const int own = int(strcspn(LIBRARY_FACTS, "\n")), other = int(strcspn(facts, "\n"));
  if (own != other || memcmp(facts, LIBRARY_FACTS, size_t(own)) != 0)
    snprintf(why, size_t(room), "it is for the target %.*s, and this library for %.*s", other, facts,
             own, LIBRARY_FACTS);
  else
    snprintf(why, size_t(room), "it was written for other kernels than this library has");
  return false;
}

/** The parts of a file; false where it is none for this library, and `why` tells. */
inline bool open_model_file(const char* content, int64_t bytes, ModelFile* file, char* why,
                            isize room) {
  const char* wrong = nullptr;
  ModelHead head;
  const bool has_head = bytes >= int64_t(sizeof head);
  if (has_head) memcpy(&head, content, sizeof head);
  if (!has_head) wrong = "it ends too early";
  else if (head.magic != MODEL_MAGIC) wrong = "it is no file of a model";
  else if ((uintptr_t)content % 64) wrong = "its address is no multiple of 64";
  if (!wrong && head.abi != INFUSE_ABI) {
    snprintf(why, size_t(room), "it has the interface %lld, and this library %d",
             (long long)head.abi, INFUSE_ABI);
    return false;
  }
  if (!wrong && !is_whole(head, bytes)) wrong = "its length is not what it says";
  const int64_t first = int64_t(offsetof(ModelHead, sample));
  if (!wrong && mixed(0, content + first, (head.weights_at - first) / 8) != head.check)
    wrong = "it was changed, or is damaged";
  if (wrong) return snprintf(why, size_t(room), "%s", wrong), false;
  const char* at = content + sizeof head;
  file->facts = at;
  file->description = at += padded(head.facts_bytes);
  file->program = at += padded(head.description_bytes);
  file->program_bytes = head.program_bytes;
  file->weights = content + head.weights_at;
  file->weights_bytes = head.weights_bytes;
  if (file->facts[head.facts_bytes - 1] || file->description[head.description_bytes - 1])
    return snprintf(why, size_t(room), "its texts do not end"), false;
  if (!fits_library(file->facts, why, room)) return false;
  if (sampled(file->weights, file->weights_bytes) == head.sample) return true;
  return snprintf(why, size_t(room), "its weights are those of another model"), false;
}

}  // namespace infuse
