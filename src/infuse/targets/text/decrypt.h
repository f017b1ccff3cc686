/*
 * Decrypts weights.enc (AES-256-GCM) by libcrypto of OpenSSL 1.1.1 or newer: link -lcrypto.
 *
 *     int64_t size = infuse_decrypted_bytes(file, bytes);          // of the whole content of weights.enc
 *     if (size < 0 || infuse_decrypt(file, bytes, key, weights))   // weights: `size` bytes, 64-byte aligned
 *         ...                                                      // another key, or a file that was changed
 */
#ifndef INFUSE_DECRYPT_H
#define INFUSE_DECRYPT_H

#include <stdint.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

enum { INFUSE_KEY_BYTES = 32, INFUSE_HEAD_BYTES = 64, INFUSE_TAG_BYTES = 16 };

static uint64_t infuse_number(const unsigned char* bytes, int count) {
  uint64_t number = 0;
  while (count--) number = number << 8 | bytes[count];
  return number;
}

/** Bytes of the weights in the content of weights.enc; -1 where it is no such file, or not all of it. */
static int64_t infuse_decrypted_bytes(const void* file, int64_t bytes) {
  const unsigned char* head = (const unsigned char*)file;
  uint64_t chunk, total, chunks;
  if (bytes < INFUSE_HEAD_BYTES || memcmp(head, "INFUSEEN\1\0\0", 12)) return -1;
  chunk = infuse_number(head + 12, 4), total = infuse_number(head + 16, 8);
  if (!chunk || chunk > 1 << 30 || total > (uint64_t)bytes) return -1;
  chunks = total / chunk + (total % chunk != 0);
  if (INFUSE_HEAD_BYTES + total + INFUSE_TAG_BYTES * chunks != (uint64_t)bytes) return -1;
  return (int64_t)total;
}

/** Writes the weights. Not 0, and zeros, where the key is another one or the file was changed. */
static int infuse_decrypt(const void* file, int64_t bytes, const unsigned char* key, void* weights) {
  static const char label[] = "infuse weights";
  const unsigned char* from = (const unsigned char*)file + INFUSE_HEAD_BYTES;
  const int64_t total = infuse_decrypted_bytes(file, bytes);
  unsigned char text[sizeof label - 1 + INFUSE_HEAD_BYTES], own[32], nonce[12] = {0};
  unsigned char* to = (unsigned char*)weights;
  EVP_CIPHER_CTX* context;
  int64_t left = total, chunk;
  unsigned size = sizeof own;
  uint32_t number = 0;
  int good, written = 0;
  if (total < 0) return -1;
  chunk = (int64_t)infuse_number((const unsigned char*)file + 12, 4);
  memcpy(text, label, sizeof label - 1);
  memcpy(text + sizeof label - 1, file, INFUSE_HEAD_BYTES);
  good = HMAC(EVP_sha256(), key, INFUSE_KEY_BYTES, text, sizeof text, own, &size) != NULL;
  context = EVP_CIPHER_CTX_new();
  good = good && context;
  for (; good && left > 0; left -= chunk, number++) {
    const int length = (int)(left < chunk ? left : chunk);
    nonce[8] = (unsigned char)(number >> 24), nonce[9] = (unsigned char)(number >> 16);
    nonce[10] = (unsigned char)(number >> 8), nonce[11] = (unsigned char)number;
    good = EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, own, nonce) == 1 &&
           EVP_DecryptUpdate(context, to, &written, from, length) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, INFUSE_TAG_BYTES,
                               (void*)(from + length)) == 1 &&
           EVP_DecryptFinal_ex(context, to + length, &written) == 1;
    from += length + INFUSE_TAG_BYTES, to += length;
  }
  EVP_CIPHER_CTX_free(context);
  OPENSSL_cleanse(own, sizeof own);
  if (!good) memset(weights, 0, (size_t)total);
  return good ? 0 : -1;
}

#endif
