// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/files/config_fields.hpp>

#include <array>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a class of transformers does, by its name after "For", where that is not language.
struct ClassTask {
    std::string_view ending;
    std::string_view task;
};

/// Source  transformers 5.23 models/auto/modeling_auto.py
inline constexpr std::array<ClassTask, 26> class_tasks{{
    {"ForObjectDetection", "an object detector"},
    {"ForKeypointDetection", "a detector of key points"},
    {"ForKeypointMatching", "a matcher of key points"},
    {"ForPoseEstimation", "an estimator of poses"},
    {"Segmentation", "a segmentation model"},
    {"ForMaskGeneration", "a segmentation model"},
    {"ForImageMatting", "a segmentation model"},
    {"ForImageClassification", "an image classifier"},
    {"ForImageClassificationWithTeacher", "an image classifier"},
    {"ForVideoClassification", "a video classifier"},
    {"ForAudioClassification", "an audio classifier"},
    {"ForAudioFrameClassification", "an audio classifier"},
    {"ForXVector", "a model of speakers"},
    {"ForDepthEstimation", "an estimator of depth"},
    {"ForNormalEstimation", "an estimator of surfaces"},
    {"ForMaskedImageModeling", "an image encoder"},
    {"ForImageSuperResolution", "a model from images to images"},
    {"ForCTC", "a speech recogniser"},
    {"ForRNNT", "a speech recogniser"},
    {"ForTDT", "a speech recogniser"},
    {"ForSpeechSeq2Seq", "a speech recogniser"},
    {"ForSpeechToText", "a speech recogniser"},
    {"ForTextToSpeech", "a speech synthesiser"},
    {"ForTableRecognition", "a reader of tables"},
    {"ForPrediction", "a forecaster of time series"},
    {"ForTimeSeriesPrediction", "a forecaster of time series"},
}};

/// Model types of detectors, for configurations that name no class.
///
/// Source  transformers 5.23 MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES, MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES
inline constexpr std::array<std::string_view, 19> detector_types{
    "conditional_detr", "d_fine", "dab-detr", "deformable_detr", "deimv2",
    "detr", "lw_detr", "pp_doclayout_v2", "pp_doclayout_v3", "rf_detr",
    "rt_detr", "rt_detr_v2", "table-transformer", "yolos", "grounding-dino",
    "mm-grounding-dino", "omdet-turbo", "owlv2", "owlvit"};

/// What else than language a class is for; empty for classes of language and for those that say nothing.
[[nodiscard]] constexpr std::string_view task_of_class(std::string_view class_name) {
    for (auto const& row : class_tasks) {
        if (class_name.size() > row.ending.size() && class_name.ends_with(row.ending)) return row.task;
    }
    return {};
}

/// Refuses what is no language model by what it is: a pipeline or a part of diffusers, a detector, a speech recogniser.
///
/// Errors  unsupported
[[nodiscard]] inline Result<> check_task(ConfigObject const& whole) {
    auto const refuse = [&](std::string_view key, std::string const& reason) -> Result<> {
        return whole.error(ErrorCode::unsupported, key, reason).fix("name a language model");
    };
    if (auto const found = whole.find_set("_class_name"); found && found->string()) {
        auto const name = *found->string();
        bool const is_pipeline = name.ends_with("Pipeline");
        return refuse("_class_name", "\"" + escaped(name) + "\" is " +
                                         (is_pipeline ? "a diffusion pipeline" : "a part of a diffusion pipeline") +
                                         ", not a language model");
    }
    std::string_view class_name;
    if (auto const classes = whole.find_set("architectures"); classes && classes->is_array() && !classes->empty())
        class_name = (*classes->begin()).string().value_or("");
    if (auto const task = task_of_class(class_name); !task.empty()) {
        return refuse("architectures", "\"" + escaped(class_name) + "\" is " + std::string(task) + ", not a language model");
    }
    auto const model_type = whole.find_set("model_type");
    for (auto const type : detector_types) {
        if (!model_type || model_type->string() != type) continue;
        return refuse("model_type", "\"" + std::string(type) + "\" is an object detector, not a language model");
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
