// SPDX-License-Identifier: MIT
// fault: two shared_ptr own the same raw texture
// culprit: attach, make_sprites, remove_sprite, remove_all
// kind: double free, freed twice, freed already, already freed, use after free, freed
// symptom: crash, abort
// site: ~texture, ~sprite
// record: --malloc=all
// build: g++ -O1 -g
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct texture {
  explicit texture(std::string n) : name(std::move(n)), pixels(32, 1) {}
  std::string name;
  std::vector<unsigned char> pixels;
};

struct sprite {
  std::shared_ptr<texture> image;
  int x = 0, y = 0;
};

class scene {
public:
  __attribute__((noinline)) void attach(texture *image, int x, int y) {
    sprite s;
    s.image = std::shared_ptr<texture>(image); // another owner each time
    s.x = x;
    s.y = y;
    sprites_.push_back(s);
  }
  int draw() const {
    int sum = 0;
    for (const sprite &s : sprites_)
      sum += s.x + s.y + s.image->pixels[0];
    return sum;
  }
  __attribute__((noinline)) void remove_sprite() { sprites_.pop_back(); }
  __attribute__((noinline)) void remove_all() { sprites_.clear(); }

private:
  std::vector<sprite> sprites_;
};

static __attribute__((noinline)) void make_sprites(scene &s) {
  for (int i = 0; i < 50; i++)
    s.attach(new texture("tile" + std::to_string(i)), i, i * 2);
  texture *shared = new texture("background of the whole level");
  s.attach(shared, 0, 0);
  s.attach(shared, 640, 0);
}

int main() {
  scene s;
  make_sprites(s);
  int sum = 0;
  for (int i = 0; i < 100; i++)
    sum += s.draw();
  s.remove_sprite();
  std::printf("%d\n", sum);
  s.remove_all();
}
