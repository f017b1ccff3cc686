// Boxes that overlap better ones too much are left out.
#pragma once
#include "math.hpp"
#include "sort.hpp"
#include "threads.hpp"

namespace infuse {

/** Boxes of one image as five rows of floats: top, left, bottom, right, area. */
struct Corners {
  const float *top, *left, *bottom, *right, *area;
};

struct Suppression {
  isize images, classes, boxes;
  isize most;        // boxes kept per image and class
  float overlap;    // the largest part of the common area that may overlap
  bool has_least;   // whether boxes must score more than `least`
  float least;
};

namespace suppress_detail {

/** A candidate: its place and a key that is smaller for a better score; NaN comes last. */
struct Candidate {
  uint32_t key;
  int32_t box;
};

inline uint32_t key_of(float score) {
  if (score != score) return 0xffffffffu;
  uint32_t bits = uint32_t(as_int(score + 0.0f));
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

constexpr int DIGIT = 11, BUCKETS = 1 << DIGIT;

/** Sorts by key, stably. `space` holds as many; `counts` holds three rows of buckets. */
inline Candidate* radix_sort(Candidate* items, Candidate* space, isize count, int32_t* counts) {
  memset(counts, 0, 3 * BUCKETS * sizeof(int32_t));
  for (isize i = 0; i < count; ++i)
    for (int d = 0; d < 3; ++d) ++counts[d * BUCKETS + (items[i].key >> d * DIGIT) % BUCKETS];
  for (int d = 0; d < 3; ++d) {
    int32_t* start = counts + d * BUCKETS;
    int32_t total = 0;
    for (int b = 0; b < BUCKETS; ++b) {
      int32_t size = start[b];
      start[b] = total;
      total += size;
    }
    for (isize i = 0; i < count; ++i) space[start[(items[i].key >> d * DIGIT) % BUCKETS]++] = items[i];
    Candidate* swapped = items;
    items = space;
    space = swapped;
  }
  return items;
}

/** Whether one of the boxes kept before overlaps `box` too much. */
struct Kept {
  float *top, *left, *bottom, *right, *area;
  isize count;

  INFUSE_INLINE bool suppresses(float y0, float x0, float y1, float x1, float size, float overlap) const {
    const vf top_ = splat(y0), left_ = splat(x0), bottom_ = splat(y1), right_ = splat(x1);
    const vf size_ = splat(size), limit = splat(overlap), none = splat(0.0f);
    const vf rough = splat(overlap * 0.99999f);
    for (isize i = 0; i < count; i += LANES) {
      const vf high = detail::raw_min(load(bottom + i, Full{}), bottom_) - detail::raw_max(load(top + i, Full{}), top_);
      const vf wide = detail::raw_min(load(right + i, Full{}), right_) - detail::raw_max(load(left + i, Full{}), left_);
      const vf common = high * wide;
      const vf both = load(area + i, Full{}) + size_ - common;
      const vi may = (high > none) & (wide > none) & (common >= rough * both);
      if (__builtin_expect(any(may), 0) && any(may & (common / both > limit))) return true;
    }
    return false;
  }

  INFUSE_INLINE void add(float y0, float x0, float y1, float x1, float size) {
    top[count] = y0, left[count] = x0, bottom[count] = y1, right[count] = x1, area[count] = size;
    ++count;
  }
};

inline isize padded_count(isize boxes) { return round_up(boxes + LANES, LANES); }

}  // namespace suppress_detail

/** Bytes of scratch per worker. */
inline isize suppress_scratch(isize boxes) {
  using namespace suppress_detail;
  return 5 * padded_count(boxes) * 4 + 2 * round_up(boxes * isize(sizeof(Candidate)), CACHE_LINE) +
         3 * BUCKETS * 4;
}

/** Boxes [images, boxes, 4], corners or centers with sizes, as rows [images, 5, boxes]. */
inline void box_corners(Context& context, isize images, isize boxes, bool centers, const float* x,
                        float* rows) {
  context.parallel(
      images * boxes,
      [&](isize begin, isize end, int) {
        for (isize i = begin; i < end; ++i) {
          const float* b = x + i * 4;
          float* to = rows + i / boxes * 5 * boxes + i % boxes;
          float y0, x0, y1, x1;
          if (centers) {
            y0 = b[0] - b[2] / 2, x0 = b[1] - b[3] / 2;
            y1 = b[0] + b[2] / 2, x1 = b[1] + b[3] / 2;
          } else {
            y0 = b[0] < b[2] ? b[0] : b[2], y1 = b[0] < b[2] ? b[2] : b[0];
            x0 = b[1] < b[3] ? b[1] : b[3], x1 = b[1] < b[3] ? b[3] : b[1];
          }
          to[0] = y0, to[boxes] = x0, to[2 * boxes] = y1, to[3 * boxes] = x1;
          to[4 * boxes] = (y1 - y0) * (x1 - x0);
        }
      },
      4096);
}

/**
 * The boxes kept of every image and class, best first: kept [images · classes, room], and how many
 * there are. Needs suppress_scratch(boxes).
 */
inline void suppress(Context& context, const Suppression& shape, isize room, const float* rows,
                     const float* scores, int32_t* kept, int32_t* counts) {
  using namespace suppress_detail;
  const isize n = shape.boxes, limit = shape.most < room ? shape.most : room;
  context.parallel(shape.images * shape.classes, [&](isize begin, isize end, int worker) {
    const isize wide = padded_count(n);
    float* memory = reinterpret_cast<float*>(context.scratch(worker));
    Candidate* items = reinterpret_cast<Candidate*>(memory + 5 * wide);
    Candidate* space = items + round_up(n * isize(sizeof(Candidate)), CACHE_LINE) / isize(sizeof(Candidate));
    int32_t* buckets = reinterpret_cast<int32_t*>(
        space + round_up(n * isize(sizeof(Candidate)), CACHE_LINE) / isize(sizeof(Candidate)));
    for (isize unit = begin; unit < end; ++unit) {
      const float* score = scores + unit * n;
      const float* box = rows + unit / shape.classes * 5 * n;
      isize count = 0;
      for (isize i = 0; i < n; ++i) {
        items[count] = {key_of(score[i]), int32_t(i)};
        count += !shape.has_least || score[i] > shape.least;
      }
      counts[unit] = 0;
      if (limit <= 0 || count == 0) continue;
      const Candidate* best = items;
      if (count < 300)
        merge_sort(items, space, count, [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
      else
        best = radix_sort(items, space, count, buckets);
      memset(memory, 0, size_t(5 * wide) * 4);
      Kept found = {memory, memory + wide, memory + 2 * wide, memory + 3 * wide, memory + 4 * wide, 0};
      int32_t* out = kept + unit * room;
      for (isize i = 0; i < count && found.count < limit; ++i) {
        const isize b = best[i].box;
        const float y0 = box[b], x0 = box[n + b], y1 = box[2 * n + b], x1 = box[3 * n + b];
        if (found.suppresses(y0, x0, y1, x1, box[4 * n + b], shape.overlap)) continue;
        out[found.count] = int32_t(b);
        found.add(y0, x0, y1, x1, box[4 * n + b]);
      }
      counts[unit] = int32_t(found.count);
    }
  });
}

/** How many boxes are kept in all. */
inline isize suppressed_total(const int32_t* counts, isize units) {
  isize total = 0;
  for (isize i = 0; i < units; ++i) total += counts[i];
  return total;
}

/** The boxes kept as rows (image, class, box). */
inline void list_kept(isize units, isize classes, isize room, const int32_t* kept,
                      const int32_t* counts, int64_t* y) {
  for (isize unit = 0; unit < units; ++unit)
    for (isize i = 0; i < counts[unit]; ++i, y += 3)
      y[0] = unit / classes, y[1] = unit % classes, y[2] = kept[unit * room + i];
}

}  // namespace infuse
