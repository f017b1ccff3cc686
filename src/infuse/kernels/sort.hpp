// A stable sort of indices.
#pragma once
#include "isize.h"

namespace infuse {

/** Sorts `items` stably so that before(a, b) holds for no later a and earlier b; `space` holds
 * `count` items. */
template <class Item, class Before>
inline void merge_sort(Item* items, Item* space, isize count, const Before& before) {
  const isize run = 8;
  for (isize start = 0; start < count; start += run) {
    isize end = start + run < count ? start + run : count;
    for (isize i = start + 1; i < end; ++i) {
      Item item = items[i];
      isize j = i;
      for (; j > start && before(item, items[j - 1]); --j) items[j] = items[j - 1];
      items[j] = item;
    }
  }
  Item *from = items, *to = space;
  for (isize width = run; width < count; width *= 2) {
    for (isize start = 0; start < count; start += 2 * width) {
      isize middle = start + width < count ? start + width : count;
      isize end = start + 2 * width < count ? start + 2 * width : count;
      isize left = start, right = middle;
      for (isize i = start; i < end; ++i) {
        bool take_right = left == middle || (right < end && before(from[right], from[left]));
        to[i] = take_right ? from[right++] : from[left++];
      }
    }
    Item* swapped = from;
    from = to;
    to = swapped;
  }
  if (from != items)
    for (isize i = 0; i < count; ++i) items[i] = from[i];
}

}  // namespace infuse
