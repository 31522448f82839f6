/* SPDX-License-Identifier: Apache-2.0 */
/** @file json.h
 *  A JSON text, written from front to back. Commas and quotes are the writer's; the
 *  caller pairs open() with close(), and gives each member of an object a name.
 */
#ifndef TRYST_BINDINGS_TORCH_CSRC_CORE_JSON_H
#define TRYST_BINDINGS_TORCH_CSRC_CORE_JSON_H

#include <cstdint>
#include <string>

namespace tryst_torch
{

class Json
{
  public:
    /** Open an object ('{') or an array ('['), as an element. */
    void open(char bracket);
    /** Open an object or an array, as the member `name`. */
    void open(const char *name, char bracket);
    /** Close the innermost object ('}') or array (']'). */
    void close(char bracket);

    void add(int64_t value);
    void add(const std::string &value);
    void member(const char *name, int64_t value);
    void member(const char *name, uint64_t value);
    void member(const char *name, double value); /* six digits; finite */
    void member(const char *name, const std::string &value);
    void member(const char *name, const char *value);
    void member_null(const char *name);

    const std::string &text() const
    {
        return text_;
    }

  private:
    void next();
    void enter();
    void name(const char *name);
    void quoted(const std::string &value);

    std::string text_;
    int depth_ = 0;
    bool is_first_ = true;
};

} // namespace tryst_torch

#endif
