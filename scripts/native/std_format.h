// Supplies std::format where the C++ library has none (gcc before 13). mlx-c formats its I/O errors
// with plain "{}" fields, and that is all this supports.
#pragma once

#include <version>

#ifndef __cpp_lib_format

#include <sstream>
#include <string>
#include <string_view>

namespace std {

namespace mlx_format_shim {

inline void write(ostringstream& out, string_view text) {
  out << text;
}

template <class First, class... Rest>
void write(ostringstream& out, string_view text, const First& first, const Rest&... rest) {
  auto field = text.find("{}");
  if (field == string_view::npos) {
    out << text;
    return;
  }
  out << text.substr(0, field) << first;
  write(out, text.substr(field + 2), rest...);
}

} // namespace mlx_format_shim

template <class... Args>
string format(string_view text, const Args&... args) {
  ostringstream out;
  mlx_format_shim::write(out, text, args...);
  return out.str();
}

} // namespace std

#else
#include <format>
#endif
