// A stable sort of indices.
#pragma once

namespace infuse {

/** Sorts `items` stably so that before(a, b) holds for no later a and earlier b; `space` holds
 * `count` items. */
template <class Item, class Before>
inline void merge_sort(Item* items, Item* space, long count, const Before& before) {
  const long run = 8;
  for (long start = 0; start < count; start += run) {
    long end = start + run < count ? start + run : count;
    for (long i = start + 1; i < end; ++i) {
      Item item = items[i];
      long j = i;
      for (; j > start && before(item, items[j - 1]); --j) items[j] = items[j - 1];
      items[j] = item;
    }
  }
  Item *from = items, *to = space;
  for (long width = run; width < count; width *= 2) {
    for (long start = 0; start < count; start += 2 * width) {
      long middle = start + width < count ? start + width : count;
      long end = start + 2 * width < count ? start + 2 * width : count;
      long left = start, right = middle;
      for (long i = start; i < end; ++i) {
        bool take_right = left == middle || (right < end && before(from[right], from[left]));
        to[i] = take_right ? from[right++] : from[left++];
      }
    }
    Item* swapped = from;
    from = to;
    to = swapped;
  }
  if (from != items)
    for (long i = 0; i < count; ++i) items[i] = from[i];
}

}  // namespace infuse
