/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as text. Bytes that are not ASCII are copied, so the text is UTF-8 where its
 * strings are. Members of the outermost object begin on lines of their own, and so do the
 * elements of their arrays: a line is an operation. */
#include "json.h"

#include <cstdio>
#include <locale>
#include <sstream>

namespace tryst_torch
{

static const int lines_depth = 2;

void Json::next()
{
    if (!is_first_)
        text_ += depth_ <= lines_depth ? ",\n" : ", ";
    is_first_ = false;
}

void Json::quoted(const std::string &value)
{
    text_ += '"';
    for (char byte : value) {
        char escaped[8];
        if (byte == '"' || byte == '\\') {
            text_ += '\\';
            text_ += byte;
        } else if (static_cast<unsigned char>(byte) < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", byte);
            text_ += escaped;
        } else {
            text_ += byte;
        }
    }
    text_ += '"';
}

void Json::name(const char *name)
{
    next();
    quoted(name);
    text_ += ": ";
}

void Json::open(char bracket)
{
    next();
    text_ += bracket;
    enter();
}

void Json::open(const char *name, char bracket)
{
    this->name(name);
    text_ += bracket;
    enter();
}

void Json::enter()
{
    depth_++;
    is_first_ = true;
    if (depth_ <= lines_depth)
        text_ += '\n';
}

void Json::close(char bracket)
{
    text_ += bracket;
    depth_--;
    is_first_ = false;
}

void Json::add(int64_t value)
{
    next();
    text_ += std::to_string(value);
}

void Json::add(const std::string &value)
{
    next();
    quoted(value);
}

void Json::member(const char *name, int64_t value)
{
    this->name(name);
    text_ += std::to_string(value);
}

void Json::member(const char *name, uint64_t value)
{
    this->name(name);
    text_ += std::to_string(value);
}

void Json::member(const char *name, double value)
{
    std::ostringstream digits; /* snprintf writes a comma in many languages */
    digits.imbue(std::locale::classic());
    digits << value;
    this->name(name);
    text_ += digits.str();
}

void Json::member(const char *name, const std::string &value)
{
    this->name(name);
    quoted(value);
}

void Json::member(const char *name, const char *value)
{
    member(name, std::string(value));
}

void Json::member_null(const char *name)
{
    this->name(name);
    text_ += "null";
}

} // namespace tryst_torch
