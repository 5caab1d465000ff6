// Fingerprint: the same numbers, the same digits.
#ifndef DIFFMJ_BASE_FINGERPRINT_H_
#define DIFFMJ_BASE_FINGERPRINT_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/text.h"

namespace diffmj {

// FNV-1a over bytes.
class Fingerprint {
 public:
  void add(std::span<const double> x) {
    for (const double y : x) {
      unsigned char bytes[sizeof(y)];
      std::memcpy(bytes, &y, sizeof(y));
      for (const unsigned char byte : bytes) add_byte(byte);
    }
  }
  void add(double x) { add(std::span<const double>(&x, 1)); }
  void add(const std::string& x) {
    for (const char c : x) add_byte(static_cast<unsigned char>(c));
  }
  std::string digits() const { return text("%016llx", static_cast<unsigned long long>(hash_)); }

 private:
  void add_byte(unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace diffmj

#endif  // DIFFMJ_BASE_FINGERPRINT_H_
