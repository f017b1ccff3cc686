// A node of ROS that runs a model: it takes pixels from the topic `image` and publishes `logits`. The weights are those
// of the parameter `~weights`. infuse bind makes digits.hpp (see CMakeLists.txt).
#include <ros/ros.h>
#include <std_msgs/Float32MultiArray.h>

#include <algorithm>

#include "digits.hpp"

int main(int argc, char** argv) {
  ros::init(argc, argv, "digits");
  ros::NodeHandle node;
  const std::string path = ros::NodeHandle("~").param<std::string>("weights", "weights.bin");
  try {
    const digits::Model model(path);
    digits::Session session = model.session(1);
    digits::Outputs outputs;
    ros::Publisher results = node.advertise<std_msgs::Float32MultiArray>("logits", 8);
    using Pixels = std_msgs::Float32MultiArray::ConstPtr;
    const auto images = node.subscribe<std_msgs::Float32MultiArray>("image", 8, [&](const Pixels& pixels) {
      const digits::Shape shape{std::int64_t(pixels->data.size() / 64), 1, 8, 8};
      try {
        session.run({{pixels->data, shape}}, outputs);
      } catch (const digits::Error& error) {
        ROS_ERROR("an image is left out: %s", error.what());
        return;
      }
      std_msgs::Float32MultiArray message;
      message.data.assign(outputs.logits.begin(), outputs.logits.end());
      results.publish(message);
    });
    ros::spin();
  } catch (const digits::Error& error) {
    ROS_FATAL("%s", error.what());
    return 1;
  }
  return 0;
}
